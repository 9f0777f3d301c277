"""The benchmark of one large graph, on a small one."""

import json
import sys

import torch

from benchmarks import large_graph


def test_large_graph_records_speed_and_memory_of_each_loader(tmp_path, monkeypatch):
    monkeypatch.setattr(large_graph, "RESULTS", tmp_path / "large_graph.jsonl")
    options = ["--nodes", "300", "--steps", "1", "--batch-size", "8", "--record"]
    monkeypatch.setattr(sys, "argv", ["large_graph", *options])
    large_graph.main()
    lines = large_graph.RESULTS.read_text().splitlines()
    records = {each["case"]: each for each in map(json.loads, lines)}
    assert records.keys() == large_graph.CASES.keys()
    for case in ("scope, uplifted", "scope", "shared"):
        assert records[case]["seeds_per_second"] > 0
        assert (records[case]["nodes"], records[case]["edges"]) == (300, 3000)


def test_degrees_of_the_generated_graph_follow_a_power_law():
    edge_index = large_graph.power_law_edges(100_000, "cpu")
    assert edge_index.shape == (2, 1_000_000)
    degree = edge_index[0].bincount(minlength=100_000).double()
    for node in (100, 1000, 10_000):
        near = degree[node : node + node // 10].mean()
        wanted = 10 * 100_000**0.5 / (2 * (1.05 * node) ** 0.5)
        torch.testing.assert_close(near.item(), wanted, rtol=0.1, atol=0)
