import hashlib
import json
import pickle
import random
import shlex
from dataclasses import replace

import pytest
import safetensors.torch
import torch
import yaml
from typer.testing import CliRunner

from gnnak.cli.program import app
from gnnak.datasets.own.options import OwnData
from gnnak.errors import CheckpointError, FileFormatError, GnnakError
from gnnak.nn.features import Continuous
from gnnak.training.config.experiment import DEFAULTS, load_experiment, own_config
from gnnak.training.config.options import change
from gnnak.training.module import build_network
from gnnak.training.records.checkpoint import (
    Checkpoint,
    _digest,
    load_folder,
    model_card,
    save_folder,
    train_command,
)
from tests.training.small import small_config, triangles


@pytest.fixture
def checkpoint():
    config, info = small_config(), triangles(2).info
    weights = build_network(config, info).state_dict()
    scores = {"validation": 0.25, "test": None}
    return Checkpoint(config, info, weights, scores, None, "0123456789abcdef")


@pytest.fixture
def folder(checkpoint, tmp_path):
    place = tmp_path / "deep" / "net"
    save_folder(checkpoint, place)
    return place


def rewrite(folder, **changes):
    """Change entries of config.json, with a valid checksum; None removes an entry."""
    path = folder / "config.json"
    content = json.loads(path.read_text()) | changes
    for key in ("sha256", *(key for key in changes if changes[key] is None)):
        del content[key]
    path.write_text(json.dumps(content | {"sha256": _digest(content)}))


def test_folder_is_read_back_whole(checkpoint, folder):
    again = load_folder(folder)
    for name in ("config", "info", "scores", "degrees", "fingerprint"):
        assert getattr(again, name) == getattr(checkpoint, name)
    for name, weight in again.network().state_dict().items():
        assert weight.dtype == checkpoint.weights[name].dtype
        assert torch.equal(weight, checkpoint.weights[name])


def test_folder_has_the_names_of_the_hub_and_readable_files(checkpoint, folder):
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["README.md", "config.json", "model.safetensors"]
    config = json.loads((folder / "config.json").read_text())
    assert config["config"]["model"]["name"] == "gin-ak+"
    assert config["info"]["node_features"] == [1]
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    assert weights.keys() == checkpoint.weights.keys()


@pytest.mark.parametrize("features", [None, Continuous(4)])
def test_folder_stores_any_kind_of_features_and_degrees(features, checkpoint, tmp_path):
    info = replace(checkpoint.info, edge_features=features)
    save_folder(replace(checkpoint, info=info, degrees=(0, 2, 5)), tmp_path)
    again = load_folder(tmp_path)
    assert (again.info, again.degrees) == (info, (0, 2, 5))


def test_folder_stores_no_folders_of_the_training_data(checkpoint, tmp_path):
    own = OwnData("/home/alice/secret/a.csv", validation="/home/alice/b.csv", test="c")
    data = replace(checkpoint.config.data, own=own)
    config = replace(checkpoint.config, data=data)
    save_folder(replace(checkpoint, config=config), tmp_path)
    for path in tmp_path.iterdir():
        assert b"alice" not in path.read_bytes()
    assert load_folder(tmp_path).config.data.own.path == "a.csv"


def test_folder_stores_weights_that_share_memory(checkpoint, tmp_path):
    shared = torch.arange(6.0)
    weights = {"a": shared[:4], "b": shared.view(2, 3).t()}
    save_folder(replace(checkpoint, weights=weights), tmp_path)
    found = load_folder(tmp_path).weights
    assert all(torch.equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_folder_with_a_missing_file_is_a_sentence(name, folder):
    (folder / name).unlink()
    with pytest.raises(FileFormatError, match=f"there is no file .*{name}"):
        load_folder(folder)


def test_folder_has_right_values_or_is_refused_after_200_bit_flips(checkpoint, folder):
    draw, refused = random.Random(0), 0
    for turn in range(200):
        path = folder / ("config.json", "model.safetensors")[turn % 2]
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        try:
            found = load_folder(folder)
        except GnnakError:
            refused += 1
        else:  # a flip in white space may leave valid JSON of the same content
            assert found.config == checkpoint.config
            assert found.info == checkpoint.info
        path.write_bytes(whole)
    assert refused > 150


class Hostile:
    def __reduce__(self):
        return exec, ("raise SystemExit('code was run')",)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_folder_with_a_pickle_in_disguise_is_refused(name, folder):
    content = pickle.dumps({"weights": Hostile()})
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"not JSON|checksum is wrong"):
        load_folder(folder)


def test_folder_with_a_pickle_and_a_fitting_checksum_is_refused(folder):
    content = pickle.dumps({"weights": Hostile()})
    (folder / "model.safetensors").write_bytes(content)
    rewrite(folder, weights={"sha256": hashlib.sha256(content).hexdigest()})
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        load_folder(folder)


def test_folder_that_describes_a_huge_network_is_refused(folder, checkpoint):
    config = checkpoint.config.to_dict()
    for changed in ({"channels": 10**9}, {"num_layers": 10**9}):
        rewrite(folder, config=config | {"model": config["model"] | changed})
        with pytest.raises(CheckpointError, match="do not fit its model"):
            load_folder(folder).network()


def changed_info(**changes):
    return lambda content: {"info": content["info"] | changes}


WRONG = {
    "other program": (lambda _: {"format": "bert"}, "was not written by gnnak"),
    "no format": (lambda _: {"format": None}, "was not written by gnnak"),
    "no info": (lambda _: {"info": None}, "lacks 'info'"),
    "text as info": (lambda _: {"info": "x"}, "another layout"),
    "list as config": (lambda _: {"config": [1]}, "another layout"),
    "option": (lambda _: {"config": {"modle": 1}}, "did you mean model"),
    "score": (lambda _: {"scores": {"test": "high"}}, "the test score is 'high'"),
    "weights": (lambda _: {"weights": 3}, "checksum is wrong"),
    "layout": (lambda _: {"layout": 7}, "layout 7, but this version reads"),
    "task": (changed_info(task="magic"), "task is 'magic'"),
    "metric": (changed_info(metric="luck"), "metric is 'luck'"),
    "no output": (changed_info(num_outputs=0), "num_outputs"),
    "no nodes": (changed_info(node_features=None), "node_features is None"),
    "negative size": (changed_info(node_features=[-4]), "number of categories"),
    "scaling": (changed_info(scaling={"mean": [1], "deviation": [1]}), "scaling has"),
    "field": (changed_info(colour="red"), "unknown field 'colour'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_folder_with_a_wrong_entry_is_a_sentence(case, folder):
    changes, message = WRONG[case]
    rewrite(folder, **changes(json.loads((folder / "config.json").read_text())))
    with pytest.raises(CheckpointError, match=message) as caught:
        load_folder(folder)
    assert "\n" not in str(caught.value)


def test_folder_that_is_not_a_dict_is_a_sentence(folder):
    for text in ("[1, 2]", "", "{" * 5000, "[" * 100_000, '"config"', "\x00"):
        (folder / "config.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"not JSON|was not written by gnnak"):
            load_folder(folder)


@pytest.mark.parametrize("name", ["README.md", "config.json"])
def test_save_folder_does_not_replace_files_of_others(name, checkpoint, tmp_path):
    (tmp_path / name).write_text("{}")
    with pytest.raises(FileFormatError, match=f"has another {name}; give a new folder"):
        save_folder(checkpoint, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_save_folder_replaces_an_older_network(checkpoint, folder):
    save_folder(replace(checkpoint, scores={"test": 1.0}), folder)
    assert load_folder(folder).scores == {"test": 1.0}


def test_save_folder_stores_no_rows_that_were_left_out(checkpoint, tmp_path):
    info = replace(checkpoint.info, skipped=("row 3: 'secret' is not a molecule",))
    save_folder(replace(checkpoint, info=info), tmp_path)
    assert "secret" not in (tmp_path / "config.json").read_text()


MINE = OwnData(
    "/data/my molecules.csv",
    smiles="smi",
    targets=("log p", "tpsa"),
    split="column:part",
    skip_bad=True,
    graphs=50,
)


def test_train_command_names_every_option_that_differs():
    config = own_config(MINE, 3, {"train.epochs": 7, "model.name": "gcn-ak"})
    assert train_command(config) == (
        "gnnak train 'my molecules.csv' --smiles smi --target 'log p' --target tpsa "
        "--split column:part --graphs 50 --skip-bad --model gcn-ak --seed 3 "
        "--set train.epochs=7"
    )


def test_card_of_one_graph_has_settings_that_are_the_default_of_many(checkpoint):
    options = {"train.epochs": DEFAULTS["train.epochs"], "train.early_stop": 20}
    config = own_config(OwnData("graph.pt"), 0, options, one_graph=True)
    info = replace(checkpoint.info, one_graph=True)
    card = model_card(replace(checkpoint, config=config, info=info), "mine")
    assert (
        "gnnak train graph.pt --model gin-ak+ --seed 0 --set train.epochs=60 "
        "--set train.early_stop=20\n"
    ) in card


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
