"""`gnnak train`, `predict`, `evaluate` and `extract` on one graph."""

import csv
import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnnak import datasets
from gnnak.datasets.own import OwnData, load_own
from tests.cli.training import records, run, train


@pytest.fixture
def graph(place):
    """Write one graph of 40 nodes, with masks, as `graph.pt` and as `graph.npz`."""
    torch.manual_seed(0)
    ends = torch.randint(40, (2, 60)).sort(dim=0).values  # one direction of each edge
    part = torch.arange(40) % 4
    data = Data(
        x=torch.rand(40, 3),
        edge_index=torch.cat([ends, ends.flip(0)], dim=1),
        y=torch.randint(2, (40,)),
    )
    for number, name in enumerate(("train_mask", "val_mask", "test_mask")):
        data[name] = part == number
    torch.save(data, place / "graph.pt")
    np.savez(
        place / "graph.npz",
        edge_index=ends.numpy(),
        x=data.x.numpy(),
        y=data.y.numpy(),
        split=np.stack([part.numpy() % 3, part.roll(1).numpy() % 3]),
    )
    return place


def best(place):
    (found,) = place.glob("runs/*/best.ckpt")
    return found


def test_train_predict_and_evaluate_one_graph(graph):
    told = train("graph.pt", "--target", "y", "--model", "gcn-ak+")
    assert told.exit_code == 0, told.output
    assert "1 graph of 40 nodes" in told.output
    assert "10 training, 10 validation, 10 test nodes" in told.output
    (record,) = records(graph, "runs")
    assert record["config"]["train"]["batch_size"] is None
    assert record["config"]["model"]["subgraphs"]["num_hops"] == 1
    out = graph / "out.csv"
    run("predict", best(graph), "graph.pt", "--nodes", "7,3", "-o", out)
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["node"] for row in rows] == ["7", "3"]
    (graph / "nodes.txt").write_text("7\n3\n")
    run("predict", best(graph), "graph.pt", "--nodes", "nodes.txt", "-o", "two.csv")
    assert (graph / "two.csv").read_text() == out.read_text()
    run("predict", best(graph), "graph.pt", "-o", "all.npz")
    with np.load(graph / "all.npz") as arrays:
        assert arrays["node"].tolist() == list(range(40))
    told = json.loads(run("evaluate", best(graph), "--json").stdout)
    assert told["score"] == pytest.approx(record["scores"]["test"])
    assert told["num_rows"] == 10
    test_score = told["score"]
    told = json.loads(run("evaluate", best(graph), "graph.pt", "--json").stdout)
    assert (told["num_rows"], told["part"]) == (10, "test")
    assert told["score"] == pytest.approx(test_score)
    told = run("evaluate", best(graph), "graph.pt").stdout
    assert "graph.pt: 10 test nodes, " in told


def test_predict_takes_the_name_of_a_data_set_of_one_graph(graph, monkeypatch):
    dataset = load_own(OwnData("graph.pt")).dataset
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: dataset)
    told = train("graph.pt", "--epochs", "1")
    assert told.exit_code == 0, told.output
    for data in ("graph.pt", "Minesweeper"):
        run("predict", best(graph), data, "--nodes", "7,3", "-o", f"{data}.csv")
    written = (graph / "Minesweeper.csv").read_text()
    assert written == (graph / "graph.pt.csv").read_text()


def test_train_runs_all_splits_of_one_graph(graph):
    told = train("graph.npz", "--batch-size", "5")
    assert told.exit_code == 0, told.output
    assert [record["fold"] for record in records(graph, "runs")] == [0, 1]
    told = train(
        *("graph.npz", "--fold", "1", "--batch-size", "99"),
        *("--set", "num_neighbors=[2]"),
    )
    assert told.exit_code == 0, told.output
    assert len(records(graph, "runs")) == 3


def test_extract_estimates_one_graph_from_its_nodes(graph):
    found = json.loads(run("extract", "graph.pt", "--num-hops", "1", "--json").stdout)
    assert found["batch_size"] == found["graphs"] == 1
    assert found["nodes"]["max"] == 40
    told = run("extract", "graph.pt", "--num-hops", "1", "--sample", "10").output
    assert "Estimated from 10 of 40 nodes." in told
    assert "The graph has about" in told


def test_bench_counts_nodes_of_one_graph(graph):
    small = ("--layers", "1", "--channels", "8", "--epochs", "1", "--graphs", "5")
    arguments = ("bench", "graph.pt", "--target", "y", "--batch-size", "5", *small)
    shown = run(*arguments).stdout
    assert "nodes a second" in shown
    assert "scaled from 5 to 10 training nodes" in shown
    assert json.loads(run(*arguments, "--json").stdout)["counted"] == "nodes"


def test_extract_refuses_a_batch_size_of_one_graph(graph, fails):
    told = fails("extract", "graph.pt", "--batch-size", "5")
    assert "--batch-size is for many graphs, but graph is one graph, all nodes" in told
    told = fails("extract", "graph.pt", "--copy-limit", "50")
    assert "have about 418 node copies and edge copies (" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--devices", "2"), "is one graph, which gnnak trains on in one process"),
        (("--split", "scaffold"), "is one graph, whose nodes are split"),
        (("--fold", "0"), "has no folds under the split protocol"),
        (("--set", "num_neighbors=[2]"), "add a train.batch_size, such as 256"),
    ],
)
@pytest.mark.usefixtures("graph")
def test_train_on_one_graph_refuses_options_of_many(arguments, message):
    assert message in str(train("graph.pt", *arguments).exception)


def test_predict_refuses_nodes_that_are_no_numbers(graph, fails):
    told = train("graph.pt", "--epochs", "1")
    assert told.exit_code == 0, told.output
    message = fails("predict", str(best(graph)), "graph.pt", "--nodes", "1-3")
    assert "--nodes is '1-3'; give numbers" in message
