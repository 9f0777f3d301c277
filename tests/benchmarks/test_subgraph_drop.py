"""The benchmark of SubgraphDrop, on few graphs."""

from dataclasses import replace

import pytest

from benchmarks import subgraph_drop
from gnnak import SubgraphDrop
from tests.training.small import edge_counts, small_config


@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 1)])
def test_measure_training_gives_seconds_and_memory_of_a_step(drop, monkeypatch):
    experiment = replace(
        subgraph_drop.load_experiment("triangles"),
        config=small_config(data__name="edges", train__batch_size=4),
    )
    monkeypatch.setattr(subgraph_drop, "load_experiment", lambda _: experiment)
    monkeypatch.setattr(subgraph_drop, "load", lambda _: edge_counts())
    monkeypatch.setattr(subgraph_drop, "TRAINED", 2)
    case = subgraph_drop.CASES["ZINC molecules"]
    seconds, megabytes = subgraph_drop.measure_training(case, drop, "cpu")
    assert seconds > 0
    assert megabytes > 0
