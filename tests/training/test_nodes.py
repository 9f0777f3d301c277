from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import gnnak
from gnnak.datasets import load_dataset
from gnnak.datasets.own import OwnData, load_own
from gnnak.errors import OptionError, TrainingError
from gnnak.loading.items import Item
from gnnak.training.config.experiment import own_config
from gnnak.training.config.run_config import TrainConfig
from gnnak.training.data import (
    as_item,
    has_fixed_subgraphs,
    is_full_batch,
    layers_read,
    seed_loader,
)
from gnnak.training.module import GraphTask, build_network
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import choose_parts
from gnnak.training.run import is_captured
from tests.gpu import needs_gpu

SMALL = {
    "epochs": 2,
    "channels": 8,
    "num_layers": 2,
    "progress": False,
    "machine": Machine("cpu"),
}
NAMES = ("train_mask", "val_mask", "test_mask")
PARTS = torch.arange(40) % 4  # parts 0, 1 and 2, and nodes in no part


def random_graph(num_splits=1):
    """A random graph of 40 nodes with masks; its classes are those of a feature."""
    torch.manual_seed(0)
    ends = torch.randint(40, (2, 60))
    x = torch.rand(40, 4)
    data = Data(
        x=x,
        edge_index=torch.cat([ends, ends.flip(0)], dim=1),
        y=(x[:, 0] > 0.5).long(),
    )
    for part, name in enumerate(NAMES):
        columns = [PARTS.roll(shift) == part for shift in range(num_splits)]
        data[name] = torch.stack(columns, dim=1) if num_splits > 1 else columns[0]
    return data


def weights(data, **options):
    model, _ = gnnak.train(data, **SMALL | {"model": "gcn-ak+"} | options)
    return torch.cat([p.flatten() for p in model.parameters()])


def test_train_on_one_graph_uses_the_targets_of_training_nodes_only():
    data, other = random_graph(), random_graph()
    hidden = ~data.train_mask & ~data.val_mask
    other.y[hidden] = 1 - other.y[hidden]
    assert torch.equal(weights(data), weights(other))
    other.y[data.train_mask] = 1 - other.y[data.train_mask]
    assert not torch.equal(weights(data), weights(other))


def task_of(data, **options):
    """Return an evaluated network in float64, its graph and its config."""
    dataset = load_own(OwnData(), data).dataset
    options = {"model": "gcn-ak+", "channels": 8, "precision": "64"} | options
    config = own_config(OwnData(), 0, options, one_graph=True)
    torch.manual_seed(0)
    network = build_network(config, dataset.info).eval()
    graph = dataset.store.union()
    graph = replace(graph, x=graph.x.double())  # type: ignore[union-attr]
    return GraphTask(config, dataset.info, network), graph, config


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gcn-ak+", {}),
        ("gcn-ak", {"plain_conv": True}),
        ("gin-ak", {"num_hops": 2, "base_layers": 2}),
        ("gcn", {}),
        ("gat", {}),
        ("sage-ak+-s", {}),
    ],
)
def test_loss_of_mini_batches_is_that_of_the_whole_graph(model, options):
    options = {"layers": 2, "batch_size": 3} | options
    task, graph, config = task_of(random_graph(), model=model, **options)
    rows = (PARTS == 0).nonzero().flatten()
    whole = task.loss_of(Item(graph, rows=rows))
    outputs = task.network(graph)[rows]
    assert graph.y is not None
    torch.testing.assert_close(
        whole, nn.functional.cross_entropy(outputs, graph.y[rows])
    )
    loader = seed_loader(graph, rows, task.network, config, shuffle=False)
    batches = [as_item(batch) for batch in loader]
    assert [len(item.rows) for item in batches] == [3, 3, 3, 1]  # type: ignore[arg-type]
    losses = torch.stack([task.loss_of(item) * len(item.rows) for item in batches])  # type: ignore[arg-type]
    torch.testing.assert_close(losses.sum() / len(rows), whole)


@needs_gpu
@pytest.mark.parametrize("model", ["gcn-ak+", "gin-ak+", "sage-ak+", "pna*-ak+", "gin"])
def test_steps_on_the_whole_graph_are_captured_and_train_the_same(
    model, monkeypatch, caplog
):
    options = SMALL | {"model": model, "epochs": 8, "channels": 64}
    options |= {"machine": Machine("gpu"), "settings": {"dropout": 0.0}}
    losses = {}
    for captured in (True, False):
        monkeypatch.setattr(
            "gnnak.training.run.is_full_batch", lambda *_, full=captured: full
        )
        _, record = gnnak.train(random_graph(), **options)
        losses[captured] = record["curves"]["train_loss"]
        assert record["captured"] is captured
    assert "captured" not in caplog.text
    assert losses[True] == pytest.approx(losses[False], rel=0.05)


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        ({}, True),
        ({"model": "gcn"}, True),
        ({"model": "gcn-ak+-s"}, False),
        ({"model.subgraphs.kind": "walks"}, False),
    ],
)
def test_has_fixed_subgraphs_unless_they_are_random(options, fixed):
    task, _, _ = task_of(random_graph(), **options)
    assert has_fixed_subgraphs(task.network) is fixed


@pytest.mark.parametrize(
    ("options", "captured"),
    [({}, True), ({"batch_size": 99}, True), ({"batch_size": 3}, False)],
)
def test_steps_on_one_graph_are_captured_if_they_are_full_batches(
    options, captured, monkeypatch
):
    monkeypatch.setattr(Machine, "captures", lambda *_: True)
    dataset = load_own(OwnData(), random_graph()).dataset
    config = own_config(OwnData(), 0, {"model": "gcn-ak+"} | options, one_graph=True)
    parts = choose_parts(dataset, config.data.protocol, None)
    assert is_captured(config, dataset, parts, Machine("cpu")) is captured


def test_is_full_batch_needs_all_rows_and_all_neighbors():
    rows = torch.arange(9)
    assert is_full_batch(TrainConfig(batch_size=None), rows)
    assert is_full_batch(TrainConfig(batch_size=9), rows)
    assert not is_full_batch(TrainConfig(batch_size=8), rows)
    assert not is_full_batch(TrainConfig(batch_size=9, num_neighbors=(5,)), rows)


def test_layers_read_of_networks_without_context_or_subgraphs():
    for name, layers, context in (
        ("gcn-ak+", 3, True),
        ("gcn-ak", 3, False),
        ("gcn", 4, False),
    ):
        task, _, config = task_of(random_graph(), model=name, layers=3)
        assert layers_read(task.network, config) == (layers, context)
    task, _, config = task_of(random_graph(), model="dss-gin", batch_size=9)
    with pytest.raises(OptionError, match="layers of dss-gin read nodes farther away"):
        layers_read(task.network, config)


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 4}, {"settings": {"num_neighbors": [3, 2]}}]
)
def test_train_predict_and_evaluate_agree_on_one_graph(tmp_path, options):
    data = random_graph()
    if "settings" in options:
        options |= {"batch_size": 4}
    model, record = gnnak.train(data, folder=tmp_path, **SMALL, **options)
    found = model.predict(data)
    assert found.labels is not None
    right = np.array([int(label) for label in found.labels]) == data.y.numpy()
    for part, name in (("validation", "val_mask"), ("test", "test_mask")):
        score = right[data[name].numpy()].mean()
        assert record["scores"][part] == pytest.approx(score)
    some = model.predict(data, nodes=[7, 3])
    assert some.node is not None
    assert some.node.tolist() == [7, 3]
    np.testing.assert_allclose(some.values, found.values[[7, 3]], rtol=1e-5)
    by_mask = model.predict(data, nodes=data.test_mask)
    np.testing.assert_allclose(by_mask.values, found.values[2::4], rtol=1e-5)
    assert model.embed(data).shape == (40, 8)
    tested = right[data.test_mask.numpy()].mean()
    assert model.evaluate(data).score == pytest.approx(tested)
    del data.test_mask
    assert model.evaluate(data).score == pytest.approx(right.mean())


def test_train_on_masks_with_columns_trains_on_one_of_the_splits():
    data = random_graph(num_splits=3)
    with pytest.raises(OptionError, match="give fold, the number of the split"):
        gnnak.train(data, **SMALL)
    _, record = gnnak.train(data, fold=2, **SMALL)
    assert record["fold"] == 2
    with pytest.raises(OptionError, match="has 3 folds"):
        gnnak.train(data, fold=3, **SMALL)


def test_evaluate_scores_test_nodes_if_there_are_some():
    data = random_graph()
    model, record = gnnak.train(data, **SMALL)
    data.y[~data.test_mask] = -1  # no class, and not read
    found = model.evaluate(data)
    assert (found.num_rows, found.part) == (10, "test")
    assert found.score == pytest.approx(record["scores"]["test"])
    data = random_graph()
    del data.test_mask
    found = model.evaluate(data)
    assert (found.num_rows, found.part) == (40, None)
    data = random_graph(num_splits=2)
    model, record = gnnak.train(data, fold=1, **SMALL)
    found = model.evaluate(data)
    assert (found.num_rows, found.part) == (10, "test")
    assert found.score == pytest.approx(record["scores"]["test"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_mask": torch.zeros(40, dtype=torch.bool)}, "has 0 nodes to train on"),
        (
            {"val_mask": torch.zeros(40, dtype=torch.bool)},
            "val_mask.*--split random",
        ),
    ],
)
def test_train_on_empty_masks_says_which_nodes_are_missing(change, message):
    data = random_graph()
    data.update(change)
    with pytest.raises(TrainingError, match=message):
        gnnak.train(data, **SMALL)


def test_train_on_one_graph_refuses_several_processes():
    machine = Machine("cpu", devices=2)
    with pytest.raises(TrainingError, match="trains on in one process"):
        gnnak.train(random_graph(), **SMALL | {"machine": machine})


def test_train_on_many_graphs_refuses_num_neighbors():
    graphs = [random_graph() for _ in range(4)]
    with pytest.raises(OptionError, match="is for one graph whose nodes are split"):
        gnnak.train(graphs, settings={"num_neighbors": [2]}, **SMALL)


def test_predict_refuses_nodes_that_the_graph_does_not_have():
    model, _ = gnnak.train(random_graph(), **SMALL)
    with pytest.raises(OptionError, match="nodes has node 40"):
        model.predict(random_graph(), nodes=[40])
    with pytest.raises(OptionError, match="has 2 graphs"):
        model.predict([random_graph()] * 2, nodes=[0])


@pytest.mark.parametrize(
    ("name", "nodes", "splits"),
    [("minesweeper", 10_000, 10), ("tolokers", 11_758, 10), ("computers", 13_752, 0)],
)
def test_load_dataset_of_one_graph_has_its_splits(data_dir, name, nodes, splits):
    found = load_dataset(name, data_dir=data_dir).check()
    assert found.info.one_graph
    assert int(found.store.num_nodes) == nodes
    assert found.num_folds == splits
