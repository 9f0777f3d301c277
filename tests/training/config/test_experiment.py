import pytest

from benchmarks.markdown import RESULTS
from gnnak.errors import FileFormatError, OptionError
from gnnak.training.config.experiment import (
    find_config,
    full_names,
    list_options,
    load_experiment,
    stopped_config,
)
from gnnak.training.records.results import read_records


def test_load_experiment_reads_a_yaml_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("runs: 2\ndata: {name: exp}\ntrain.epochs: 7\n")
    experiment = load_experiment(str(path))
    assert (experiment.name, experiment.runs) == ("mine", 2)
    assert experiment.config.train.epochs == 7
    assert experiment.config.data.name == "exp"


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("- 1\n", FileFormatError, "not a YAML mapping"),
        ("a: [1", FileFormatError, r"line \d+: not YAML"),
        ("train: {epoch: 3}\n", OptionError, r"mine\.yaml: .* did you mean train\.epo"),
        ("epoch: 3\n", OptionError, r"mine\.yaml: .* did you mean train\.epochs"),
        ("runs: 0\n", OptionError, r"mine\.yaml: runs is 0"),
        ("[" * 5000, FileFormatError, r"line 1: is nested more than 20 levels deep"),
        ("runs: 1\nruns: 2\n", FileFormatError, "line 2: the key runs occurs twice; c"),
        (
            "train: {epochs: 3}\nepochs: 4\n",
            OptionError,
            r"mine\.yaml: train\.epochs is set twice; remove one of both\.",
        ),
        ("#" * 500_000, FileFormatError, "has more than 400000 bytes; give a smaller"),
        ("train: {learning_rate: .inf}", OptionError, "learning_rate is inf; give a f"),
        ("\xff\x00", FileFormatError, "not YAML"),
        ("!!python/object/apply:os.system [ls]\n", FileFormatError, "not YAML"),
    ],
)
def test_load_experiment_explains_what_is_wrong_in_a_file(
    text, error, sentence, tmp_path
):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(error, match=sentence):
        load_experiment(str(path))


def test_members_of_an_experiment_change_the_options_of_their_models(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("train: {epochs: 3}\nmembers: {dss: {model: {channels: 8}}}")
    experiment = load_experiment(str(path))
    assert experiment.config_for("dss-gcn").model.channels == 8
    assert experiment.config_for("dss-gcn").model.name == "dss-gcn"
    assert experiment.config_for("ds-gin").model.channels == 128
    assert experiment.config_for("dss-gcn").train.epochs == 3
    assert experiment.config_for() == experiment.config


def test_best_settings_are_defaults_that_other_options_change(tmp_path):
    path = tmp_path / "own.yaml"
    best = "{model: {name: dss-gcn, dropout: 0.5}, train: {epochs: 4}}"
    path.write_text(f"members: {{dss: {{model: {{channels: 8}}}}}}\nbest: {best}")
    _, config = find_config(str(path), {"epochs": 7}, {}, best=True)
    assert (config.model.name, config.model.channels) == ("dss-gcn", 8)
    assert (config.model.dropout, config.train.epochs) == (0.5, 7)
    _, usual = find_config(str(path), {}, {})
    assert usual.model.name == "gin-ak+"


def test_best_settings_have_a_record_that_no_other_record_with_few_weights_beats():
    records = read_records(RESULTS / "runs.jsonl")
    _, config = find_config("zinc", {}, {}, best=True)
    of_zinc = [r for r in records if r["config"]["data"]["name"] == "zinc"]
    small = [r for r in of_zinc if r["parameters"] <= 500_000]
    first = min(small, key=lambda record: record["scores"]["test"])
    assert first["cell"] == config.cell()


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("counting", {}, "no best settings for counting, only for zinc; leave out"),
        ("own.g6", {}, "no best settings for own.g6, only for zinc; leave out"),
        ("zinc", {"model": "gin"}, "also chooses the model; leave out --model"),
    ],
)
def test_find_config_explains_why_there_are_no_best_settings(data, options, message):
    with pytest.raises(OptionError, match=message):
        find_config(data, options, {}, best=True)


@pytest.mark.parametrize("best", ["3", "{model: {chanels: 3}}"])
def test_load_experiment_explains_what_is_wrong_in_best(best, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(f"best: {best}")
    with pytest.raises(OptionError, match=r"best is 3; give|did you mean model.chann"):
        load_experiment(str(path))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("3", "members is 3; give name: options"),
        ("{sswk: {}}", "there is no subgraph GNN 'sswk'; did you mean 'sswl'"),
        ("{dss: 3}", "members.dss is 3; give options, such as"),
        ("{dss: {model: {chanels: 3}}}", "did you mean model.channels"),
    ],
)
def test_load_experiment_explains_what_is_wrong_in_members(members, message, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(f"members: {members}")
    with pytest.raises(OptionError, match=message):
        load_experiment(str(path))


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "0"),
        (2, "0 and 1"),
        (5, "0, 1, 2, 3 and 4"),
        (6, "0, 1, 2, 3, 4 and 1 more option"),
    ],
)
def test_list_options_lists_at_most_five(count, told):
    assert list_options({f"key {n}": str(n) for n in range(count)}) == told


def test_stopped_config_of_a_file_that_cannot_be_read_is_none(tmp_path):
    assert stopped_config(tmp_path) is None
    for text in ("- no mapping", "train.unknown: 3", "model: {name: unknown}"):
        (tmp_path / "config.yaml").write_text(text)
        assert stopped_config(tmp_path) is None


def test_full_names_knows_the_short_names_of_options():
    given = {
        "num_hops": 1,
        "model": "gin",
        "lr": 1,
        "seed": 3,
        "layers": 2,
        "graphs": 5,
    }
    given |= {"train.epochs": 4, "model.drop": {"share": 0.2}, "train": {"step": 3}}
    assert full_names(given) == {
        "model.subgraphs.num_hops": 1,
        "model.name": "gin",
        "train.learning_rate": 1,
        "train.seed": 3,
        "model.num_layers": 2,
        "data.own.graphs": 5,
        "train.epochs": 4,
        "model.drop": {"share": 0.2},
        "train": {"step": 3},
    }


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("num_hop", "model.subgraphs.num_hops"),
        ("num-hops", "model.subgraphs.num_hops"),
        ("hops", "model.subgraphs.num_hops"),
        ("k", "model.subgraphs.num_hops"),
        ("radius", "model.subgraphs.num_hops"),
        ("model.num_hops", "model.subgraphs.num_hops"),
        ("chanels", "model.channels"),
        ("layer", "model.num_layers"),
        ("learnin_rate", "train.learning_rate"),
        ("name", "data.name or model.name"),
    ],
)
def test_full_names_suggests_the_nearest_known_name(name, nearest):
    with pytest.raises(OptionError) as caught:
        full_names({name: 1})
    assert str(caught.value) == f"unknown option {name!r}; did you mean {nearest}?"


def test_full_names_leaves_other_names_to_change():
    for name in ("zzz", "train", "model.chanels", "train.epochs.more"):
        assert full_names({name: 1}) == {name: 1}


def test_find_config_of_own_data_takes_every_option_of_the_data():
    options = {"metric": "r2", "fold": 1, "seed": 4, "num_hops": 2}
    name, config = find_config("m.csv", options, {"targets": ("a",), "folds": 3})
    assert (name, config.data.fold, config.data.seed) == ("m", 1, 4)
    assert (config.data.own.metric, config.data.own.targets) == ("r2", ("a",))
    assert (config.train.seed, config.model.subgraphs.num_hops) == (4, 2)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("zinc", {"metric": "r2", "folds": 3}, "folds, metric can only be set for you"),
        ("m.csv", {"num_hops": 2, "model": "gin"}, "2, but gin ignores this option"),
        ("zinc", {"num_hops": 2, "model": "sswl+-gin"}, "kind whole ignores this opti"),
        ("zinc", {"model": {"name": "gin", "fuse": "sum"}}, "sum', but gin ignores"),
        ("pattern", {"num_hops": 2}, "or add model.subgraphs.kind=egonets"),
        ("m.csv", {"hop_channels": 8, "model": "gin-ak"}, r"with the suffix -ak\+"),
        ("m.csv", {"num_hops": 2, "model": "ego-gin"}, "but ego-gin ignores this opt"),
        ("m.csv", {"ties": "lowest"}, "use a model with the suffix -s"),
        ("m.csv", {"target": "a"}, r"data\.target is 'a', but it is for data sets of"),
    ],
)
def test_find_config_refuses_options_that_would_have_no_effect(data, options, message):
    with pytest.raises(OptionError, match=message):
        find_config(data, options, {})
