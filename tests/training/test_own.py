import json
import os
import signal
from copy import copy
from functools import partial

import networkx as nx
import numpy as np
import pytest
import torch

import gnnak
from gnnak.datasets import describe
from gnnak.datasets.own.options import OwnData
from gnnak.errors import (
    CheckpointError,
    FileFormatError,
    GnnakError,
    GraphError,
    OptionError,
    TrainingError,
)
from gnnak.graphs import from_networkx, to_pyg
from gnnak.nn.features import Continuous
from gnnak.training.config.experiment import own_config
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.module import GraphTask
from gnnak.training.processes.stopping import Stopped
from tests.training.molecules import SMALL, SMILES, carbons


def test_own_options_at_their_default_change_no_hash():
    config = RunConfig()
    assert "own" not in config.to_dict()["data"]
    assert config.hash() == change(config, {"data.own.skip_bad": False}).hash()
    assert config.hash() != change(config, {"data.own.graphs": 5}).hash()


def test_own_config_survives_its_dict():
    own = OwnData("m.csv", targets=("a", "b"), folds=3, node_attr=("x",))
    config = own_config(own, 4, {"train.epochs": 7})
    assert change(RunConfig(), config.to_dict()) == config
    assert (config.data.name, config.data.protocol) == ("m", "held-out")


def test_train_on_a_table_and_read_the_record(tmp_path):
    rows = zip(SMILES, carbons(SMILES), strict=True)
    text = "\n".join(["smiles,mass", *(f"{s},{y}" for s, y in rows), "C(,1", "CC,"])
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(GnnakError, match="2 of 38 rows cannot be used"):
        gnnak.train(tmp_path / "m.csv", **SMALL)
    folder = tmp_path / "run"
    model, record = gnnak.train(
        tmp_path / "m.csv", skip_bad=True, metric="rmse", folder=folder, **SMALL
    )
    assert record["skipped"] == [
        "row 37: 'C(' is not a molecule",
        "row 38: mass is empty",
    ]
    assert (record["metric"], record["lower_is_better"]) == ("rmse", True)
    assert json.loads(json.dumps(record)) == record
    assert sorted(path.name for path in folder.iterdir())[0] == "best.ckpt"
    # Targets are normalised: after two epochs, predictions are of their size.
    assert 1000 < float(model("CCCO").detach()) < 8000


@pytest.mark.parametrize(
    ("y", "task", "metric"),
    [
        (["odd", "even"] * 6, "classification", "roc-auc"),
        ([0, 1, 2] * 4, "classification", "mcc"),
        ([[0, 1], [1, float("nan")]] * 6, "multilabel", "average-precision"),
        ([[i, float("nan") if i % 3 else i] for i in range(12)], "regression", "r2"),
    ],
    ids=["binary", "classes", "labels", "numbers"],
)
def test_train_on_lists_of_every_task(y, task, metric):
    data = to_pyg(from_networkx([nx.cycle_graph(3 + i) for i in range(12)]))
    split = [0] * 6 + [1] * 3 + [2] * 3
    model, record = gnnak.train(data, y, split=split, metric=metric, **SMALL)
    assert model.info.task == task
    assert record["metric"] == metric
    values = model.predict(data).values
    if task == "classification":
        assert np.allclose(values.sum(axis=1), 1)
    if task != "regression":
        assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize("progress", [True, False])
def test_train_warns_if_edges_of_pyg_data_come_in_one_direction_only(progress):
    data = to_pyg(from_networkx([nx.path_graph(4)] * 12))
    options = SMALL | {"progress": progress}
    train_on = partial(gnnak.train, y=range(12), task="regression", **options)
    train_on([*data[:11], once(data[11])])
    with pytest.warns(UserWarning, match="every edge of Python list comes.*ToUndir"):
        train_on([once(one) for one in data])
    train_on([nx.DiGraph([(0, 1)])] * 12)


@pytest.mark.parametrize(
    ("target", "width", "near"),
    [("yy", 1, "y"), (["y0", "y7"], 2, "y1"), ("lgp", 1, "logp")],
)
def test_train_takes_a_misspelt_target_of_pyg_graphs_for_no_new_name(
    target, width, near
):
    graphs = to_pyg(from_networkx([nx.path_graph(size) for size in range(3, 9)]))
    for graph in graphs:
        graph.y = torch.full((1, width), graph.num_nodes / 2)
        graph.logp = torch.ones(1)
    with pytest.raises(OptionError, match=rf"no target '\w+'; did you mean '{near}'\?"):
        gnnak.train(graphs, target=target, **SMALL)
    if width == 2:
        model, _ = gnnak.train(graphs, target=["mass", "gap"], **SMALL)
        assert model.info.targets == ("mass", "gap")


@pytest.mark.parametrize("target", ["z", "Y", "train_mask"])
def test_train_takes_no_other_name_for_the_only_column_of_y(target):
    graph = to_pyg(from_networkx([nx.path_graph(9)]))[0]
    graph.y, graph.train_mask = torch.arange(9) % 2, torch.arange(9) < 5
    graph.val_mask = ~graph.train_mask
    with pytest.raises(OptionError, match=f"there is no target '{target}'"):
        gnnak.train(graph, target=target, **SMALL)


def test_train_names_nodes_without_a_target_and_says_that_all_need_one():
    graphs = to_pyg(from_networkx([nx.path_graph(size) for size in range(3, 9)]))
    for graph in graphs:
        graph.y = torch.arange(float(graph.num_nodes))
    graphs[1].y[0] = torch.nan
    told = r"1 of 33 nodes cannot be used \(node 3: .*\); give every node a target"
    for skip_bad in (False, True):
        with pytest.raises(FileFormatError, match=told):
            gnnak.train(graphs, skip_bad=skip_bad, **SMALL)


def test_train_refuses_values_as_the_path_of_a_table_of_labels():
    with pytest.raises(OptionError, match="labels is a list; give the path of a table"):
        gnnak.train(["C"] * 5, labels=[1, 2, 3, 4, 5])


@pytest.fixture
def stop(monkeypatch):
    """Let a run receive SIGTERM after its first training step."""
    original = GraphTask.training_step

    def step(*arguments):
        result = original(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        return result

    monkeypatch.setattr(GraphTask, "training_step", step)
    return monkeypatch


@pytest.mark.parametrize("has_folder", [True, False])
def test_train_stopped_by_sigterm_names_the_argument_of_python(
    has_folder, stop, tmp_path
):
    folder, advice = None, r"^stopped by SIGTERM\.$"
    if has_folder:
        folder, advice = tmp_path, r"^stopped by SIGTERM; go on with resume=True\.$"
    with pytest.raises(Stopped, match=advice):
        gnnak.train(SMILES, carbons(SMILES), folder=folder, **SMALL)
    assert (tmp_path / "last.ckpt").exists() == has_folder


def test_train_resumed_names_what_differs_from_the_stopped_run(stop, tmp_path):
    resumed = partial(gnnak.train, SMILES, folder=tmp_path, resume=True)
    y = carbons(SMILES)
    with pytest.raises(Stopped):
        resumed(y, **SMALL)
    stop.undo()
    for options, told in (
        ({"seed": 3}, r"train\.seed=0 instead of 3"),
        ({"channels": 4}, r"model\.channels=8 instead of 4"),
        ({"split": "scaffold"}, r"data\.own\.split=None instead of 'scaffold'"),
    ):
        with pytest.raises(CheckpointError, match=f"was stopped with {told}; give"):
            resumed(y, **SMALL | options)
    with pytest.raises(CheckpointError, match=r"last\.ckpt was written on other data"):
        resumed([1 + value for value in y], **SMALL)
    assert resumed(y, **SMALL).record["epochs"] == 2


def test_train_resumed_without_a_stopped_run_says_so(tmp_path, caplog):
    train = partial(gnnak.train, SMILES, carbons(SMILES), resume=True, **SMALL)
    with pytest.raises(OptionError, match="resume is True, but folder is None; give"):
        train()
    folder = tmp_path / "new"
    train(folder=folder)
    told = f"a new run begins: {folder} holds no run that was stopped."
    assert caplog.messages == [told]


def once(data):
    """The same graph with each undirected edge in one direction only."""
    data = copy(data)
    data.edge_index = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    return data


def test_train_on_nodes_of_networkx_graphs():
    graphs = [nx.path_graph(5) for _ in range(10)]
    for graph in graphs:
        kinds = {n: "end" if n in (0, 4) else "in" for n in graph}
        nx.set_node_attributes(graph, kinds, "kind")
    model, _ = gnnak.train(graphs, target="kind", **SMALL)
    found = model.predict(graphs[:2])
    assert found.values.shape == (10, 2)
    assert found.graph.tolist() == [0] * 5 + [1] * 5
    assert set(found.labels) <= {"end", "in"}


@pytest.mark.parametrize(
    ("options", "printed", "logged"),
    [
        ({"progress": True}, "  node features: none; ", ""),
        ({}, "", "node features: none; "),
        ({"node_attr": "mass"}, "", ""),
        ({"node_attr": ["mass"], "progress": True}, "  node features: mass; ", ""),
    ],
    ids=str,
)
def test_train_says_once_what_the_features_are(
    options, printed, logged, capsys, caplog
):
    graphs = [nx.path_graph(size) for size in range(3, 9)]
    for graph in graphs:
        nx.set_node_attributes(graph, {node: node / 2 for node in graph}, "mass")
    y = [float(len(graph)) for graph in graphs]
    trained, _ = gnnak.train(graphs, y, **{**SMALL, **options})
    told = capsys.readouterr().err
    for text, start in ((told, printed), (caplog.text, logged)):
        assert text.count("node features: ") == bool(start)
        assert start in text
    if options.get("node_attr") is None:
        assert "; add numbers with --node-attr mass (" in told + caplog.text
    else:
        assert trained.info.node_features == Continuous(1)


def test_train_on_targets_of_nodes_predicts_for_graphs_with_targets_of_edges():
    graphs = to_pyg(from_networkx([nx.path_graph(size) for size in range(3, 9)]))
    for graph in graphs:
        graph.y = torch.arange(graph.num_nodes) / 2
    trained, _ = gnnak.train(graphs, **SMALL)
    wanted = trained.predict(graphs).values
    for graph in graphs:
        graph.y = torch.rand(graph.num_edges)
    assert np.array_equal(trained.predict(graphs).values, wanted)
    with pytest.raises(GnnakError, match="y has one row for every edge, but gnnak"):
        gnnak.train(graphs, **SMALL)


def test_train_on_one_fold():
    data = [nx.cycle_graph(3 + i) for i in range(9)]
    y = torch.arange(9) / 2
    _, record = gnnak.train(data, y, folds=3, fold=1, **SMALL)
    assert (record["fold"], record["protocol"]) == (1, "held-out")
    with pytest.raises(GnnakError, match="give fold"):
        gnnak.train(data, y, folds=3, **SMALL)


def test_train_without_test_graphs_says_so(tmp_path, capsys):
    split = [0] * (len(SMILES) - 6) + [1] * 6
    options = SMALL | {"progress": True}
    y = carbons(SMILES)
    model, record = gnnak.train(SMILES, y, split=split, folder=tmp_path, **options)
    assert record["scores"]["test"] is None
    assert record["undefined"] == {"test": "there are no test graphs"}
    assert model.checkpoint.scores["test"] is None
    told = " ".join(capsys.readouterr().err.split())
    assert "30 training, 6 validation, no test molecules; the network is not" in told


def test_train_without_validation_graphs_is_a_sentence():
    split = [0] * (len(SMILES) - 6) + [2] * 6
    with pytest.raises(TrainingError, match="graphs has no validation graphs"):
        gnnak.train(SMILES, carbons(SMILES), split=split, **SMALL)


def test_train_warns_before_memory_runs_out(monkeypatch):
    monkeypatch.setattr(describe, "free_bytes", lambda _: 1000)
    with pytest.warns(UserWarning, match="a training step on 29 graphs needs about"):
        gnnak.train(SMILES, carbons(SMILES), **SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 5}, "there is no option 'epoch'; did you mean 'epochs'? Known"),
        ({"settings": "train.clip=1"}, "settings is a str; give a dict"),
        (
            {"settings": {"epoch": 3}},
            "unknown option 'epoch'; did you mean train.epochs",
        ),
        ({"num_hops": -1}, "num_hops is -1; give a whole number of at least 0"),
        ({"machine": "cpu"}, "machine is a str; give a Machine"),
        ({"target": 5}, "the name 5 is not a text"),
        ({"target": ["mass", "mass"]}, "the target mass is named twice"),
        ({"split": ["train", "tset"]}, "split has 'tset'; write train, validation or"),
        ({"split": {"train": [0]}}, "split has shape"),
        ({"split": [1] * len(SMILES)}, "0 graphs to train on, and 1 process; give"),
        ({"y": [[1, 2]] * (len(SMILES) - 1) + [[1]]}, "rows of different lengths"),
        ({"y": [1.0] * len(SMILES)}, "y is 1.0 in all 36 rows, so there is nothing"),
        ({"data": set(SMILES)}, "the data are a set; give a path, or a list"),
        ({"data": {"smiles": SMILES}}, "the data are a dict; give a path"),
        ({"data": b"table.csv"}, "the data are a bytes; give a path"),
        ({"model": torch.nn.Linear(1, 1)}, "the model is a Linear; give a name"),
        ({"data": [], "y": []}, "the list of graphs has no graphs; add some."),
    ],
    ids=range(17),
)
def test_train_wrong_arguments_are_a_sentence(options, message):
    given = {"data": SMILES, "y": carbons(SMILES), **SMALL} | options
    with pytest.raises(GnnakError) as caught:
        gnnak.train(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [{"num_hops": 1}, {"settings": {"num_hops": 1}}])
def test_train_takes_the_radius_of_the_egonets(options):
    model, record = gnnak.train(SMILES, carbons(SMILES), **SMALL, **options)
    assert record["config"]["model"]["subgraphs"]["num_hops"] == 1
    assert model.network.extractor.num_hops == 1


def test_train_takes_options_of_own_data_as_settings():
    settings = {"metric": "r2", "fold": 1, "folds": 3}
    _, record = gnnak.train(SMILES, carbons(SMILES), settings=settings, **SMALL)
    assert (record["metric"], record["fold"]) == ("r2", 1)


def test_train_takes_words_as_split_and_numbers_of_numpy():
    split = ["train"] * 30 + ["val"] * 3 + ["test"] * 3
    options = SMALL | {"epochs": np.int64(1), "seed": np.int32(3)}
    _, record = gnnak.train(SMILES, carbons(SMILES), split=split, **options)
    assert (record["epochs"], record["seed"]) == (1, 3)


def test_train_takes_names_of_targets_from_a_generator():
    options = {**SMALL, "target": (name for name in ["a", "b"]), "progress": False}
    y = np.random.default_rng(0).random((len(SMILES), 2))
    net, _ = gnnak.train(SMILES, y, **options)
    assert net.info.targets == ("a", "b")


def test_a_trained_model_names_the_attributes_that_new_graphs_lack():
    graphs = [nx.path_graph(size) for size in range(3, 9)]
    for graph in graphs:
        nx.set_node_attributes(graph, 0.5, "charge")
        nx.set_edge_attributes(graph, 1.5, "edge_attr")
    y = [graph.number_of_nodes() / 2 for graph in graphs]
    model, _ = gnnak.train(graphs, y, node_attr="charge", epochs=1, progress=False)
    told = "the model was trained with the {} attribute {}; add it to the graphs"
    bare, no_edge_attr = [nx.path_graph(3)], from_networkx(graphs, "charge")
    for find in (model, model.predict, partial(model.evaluate, y=[1.0])):
        with pytest.raises(GraphError, match=told.format("node", "'charge'")):
            find(bare)
    for find in (model, model.predict):
        with pytest.raises(GraphError, match=told.format("edge", "'edge_attr'")):
            find(no_edge_attr)
    single = nx.Graph()
    single.add_node(0, charge=0.5)
    both = model.predict([graphs[0], single]).values
    assert np.array_equal(model.predict([single]).values, both[1:])
    assert len(model.predict([]).values) == 0
