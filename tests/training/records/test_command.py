import shlex

import yaml
from typer.testing import CliRunner

from gnnak.cli.program import app
from gnnak.datasets.own.options import OwnData
from gnnak.training.config.experiment import load_experiment, own_config
from gnnak.training.config.options import change
from gnnak.training.records.folder import train_command

OWN = OwnData(
    "/data/my molecules.csv",
    smiles="smi",
    targets=("log p", "tpsa"),
    split="column:part",
    skip_bad=True,
    graphs=50,
)


def test_train_command_names_every_option_that_differs():
    config = own_config(OWN, 3, {"train.epochs": 7, "model.name": "gcn-ak"})
    assert train_command(config) == (
        "gnnak train 'my molecules.csv' --smiles smi --target 'log p' --target tpsa "
        "--split column:part --graphs 50 --skip-bad --model gcn-ak --seed 3 "
        "--set train.epochs=7"
    )


def test_train_command_of_a_data_set_names_fold_protocol_and_target():
    config = load_experiment("mutag").config
    changes = {"data.fold": 2, "data.protocol": "held-out", "train.clip": 0.5}
    assert train_command(change(config, changes)) == (
        "gnnak train mutag --protocol held-out --model gin-ak+ --seed 0 --fold 2 "
        "--set train.clip=0.5"
    )
    counting = change(load_experiment("counting").config, {"data.target": "star"})
    assert "--target star" in train_command(counting)


def test_train_command_of_a_python_list_is_none():
    assert train_command(own_config(OwnData(), 0, {})) is None


def test_train_command_gives_the_same_options_back():
    options = {"train.epochs": 7, "model.subgraphs.num_hops": 1, "train.clip": 2.0}
    config = change(load_experiment("zinc").config, options)
    words = shlex.split(train_command(config))[1:]
    done = CliRunner().invoke(app, [*words, "--show"])
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout) == config.to_dict()
