import pytest

from gnnak.errors import OptionError
from gnnak.training.measure.bench import (
    BenchOptions,
    check_growing,
    grow,
    regular_graphs,
)
from gnnak.training.processes.machine import Machine
from tests.training.small import small_config, triangles

CPU = Machine("cpu")
FEW = BenchOptions(graphs=4, epochs=1, warm_up=0)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("what", "part", "option"),
    [
        ("hops", "subgraphs", "num_hops"),
        pytest.param("coverage", "drop", "min_coverage", marks=pytest.mark.slow),
    ],
)
def test_grow_measures_every_value(what, part, option):
    config = small_config(model__name="gin-ak+-s")
    records = list(grow(what, config, triangles, CPU, FEW, values=(1, 2)))
    assert [(r["kind"], r["what"], r["value"]) for r in records] == [
        ("growth", what, 1),
        ("growth", what, 2),
    ]
    assert [r["config"]["model"][part][option] for r in records] == [1, 2]


@pytest.mark.heavy
def test_grow_of_channels_has_more_weights():
    config = small_config(model__name="gin")
    records = list(grow("channels", config, triangles, CPU, FEW, values=(4, 8)))
    assert records[0]["parameters"] < records[1]["parameters"]


def test_grow_of_nodes_generates_regular_graphs():
    def load():
        raise AssertionError("nodes need no data set")

    config = small_config(data__protocol="held-out", train__loss="cross-entropy")
    told = []
    (record,) = grow("nodes", config, load, CPU, FEW, told.append, values=(12,))
    assert record["config"]["data"]["name"] == "regular-12"
    assert record["value"] == 12
    assert told == ["nodes 12, epoch 1 of 1"]


def test_regular_graphs_are_a_data_set():
    dataset = regular_graphs(12, 40).check()
    assert dataset.store.num_edges.tolist() == [48] * 40
    assert dataset.split is not None
    assert dataset.split.bincount().tolist() == [38, 1, 1]


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("hops", {"model__name": "gin"}),
        ("hops", {"model__subgraphs__kind": "walks"}),
        ("coverage", {"model__name": "gin-ak+"}),
    ],
)
def test_check_growing_refuses_what_a_model_does_not_have(what, options):
    with pytest.raises(OptionError, match=r"gin.* has no (hops|coverage) to vary"):
        check_growing(what, small_config(**options))
