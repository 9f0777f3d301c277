import torch

from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.graphs.readers import from_pyg
from gnnak.nn.features import Categorical
from gnnak.report.lookup import RunRecords
from gnnak.report.paper import load_table
from gnnak.report.statistics import (
    FILE,
    describe_dataset,
    read_statistics,
    unmeasured,
)
from gnnak.report.tables import fill_table
from gnnak.testing import small_graphs
from tests.report.hand_records import write_records

MUTAG = {"graphs": [188], "nodes": 17.93, "edges": 39.58, "outputs": 2}


def test_describe_dataset_counts_parts_nodes_and_directed_edges():
    graphs = small_graphs(channels=4, edge_channels=3)
    pair = [graphs["two components"], graphs["single node"]]
    info = DatasetInfo(
        "toy", "Toy", "regression", "mae", 1, Categorical((1,)), None, "by hand"
    )
    split = torch.tensor([0, 2])
    record = describe_dataset(Dataset(info, from_pyg(pair), split))
    nodes = sum(graph.num_nodes for graph in pair) / 2
    edges = sum(graph.edge_index.size(1) for graph in pair) / 2
    assert record == {
        "kind": "dataset",
        "dataset": "toy",
        "source": "by hand",
        "outputs": 1,
        "graphs": [1, 0, 1],
        "nodes": nodes,
        "edges": edges,
    }


def test_statistics_are_printed_beside_the_papers(tmp_path):
    old = MUTAG | {"kind": "dataset", "dataset": "mutag", "nodes": 0.0}
    new = MUTAG | {"kind": "dataset", "dataset": "mutag"}
    known = read_statistics(write_records(tmp_path, [old, new], FILE))
    table = load_table("datasets")
    assert "mutag" not in unmeasured(table, known)
    assert unmeasured(table, known)[:2] == ["exp", "sr25"]
    filled = fill_table(table, RunRecords([]), known)
    row = next(row for row in filled.body if row[0] == "MUTAG")
    assert row == ["MUTAG", "2 (2)", "188 (188)", "17.93 (17.93)", "19.79 (19.79)"]
    assert filled.body[0][2] == "(1200)"
