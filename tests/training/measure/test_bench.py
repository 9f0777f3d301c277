import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gnnak.errors import OptionError, TrainingError
from gnnak.training.measure import bench as bench_module
from gnnak.training.measure.bench import (
    PHASES,
    BenchOptions,
    bench,
    bench_both,
    check_growing,
    grow,
    regular_graphs,
    with_kernels,
)
from gnnak.training.processes.machine import Machine
from tests.gpu import needs_gpu
from tests.training.small import edge_counts, small_config, triangles

CPU = Machine("cpu")
ONCE = BenchOptions(epochs=1)


@pytest.fixture(scope="module")
def record():
    return bench(small_config(), triangles(), CPU, BenchOptions(epochs=2))


def test_bench_record_has_config_and_environment(record):
    config = small_config()
    assert record["kind"] == "bench"
    assert record["config"] == config.to_dict()
    assert (record["hash"], record["cell"]) == (config.hash(), config.cell())
    assert (record["graphs"], record["graphs_an_epoch"]) == (16, 16)
    assert record["batches"] == 2
    assert (record["fast"], record["recompute"], record["ratio"]) == (True, False, None)
    assert record["accelerator"] == "cpu"
    assert record["kernels"] is None
    assert record["parameters"] > 0
    assert {"device", "versions", "commit", "time"} <= set(record)


def test_bench_times_the_epochs_after_the_warm_up_and_all_phases(record):
    seconds = record["seconds"]
    assert set(seconds) == {"epoch", *PHASES}
    assert all(value > 0 for value in seconds.values())
    assert len(record["epochs"]) == 2
    assert min(record["epochs"]) <= seconds["epoch"] <= max(record["epochs"])
    assert math.isclose(
        record["graphs_per_second"], 16 / seconds["epoch"], rel_tol=1e-4
    )
    assert record["peak_memory_mb"] > 0


def test_bench_scales_an_epoch_on_a_part_to_all_graphs():
    record = bench(small_config(), triangles(), CPU, BenchOptions(graphs=4, epochs=1))
    assert (record["graphs"], record["graphs_an_epoch"]) == (4, 16)
    (measured,) = record["epochs"]
    assert math.isclose(record["seconds"]["epoch"], 4 * measured, rel_tol=1e-4)
    assert math.isclose(record["graphs_per_second"], 4 / measured, rel_tol=1e-4)


def test_bench_times_evaluation_if_requested():
    options = BenchOptions(epochs=2, evaluation=True)
    record = bench(small_config(), triangles(), CPU, options)
    assert record["seconds"]["evaluation"] > 0
    assert len(record["epochs"]) == 2


def test_bench_notifies_every_epoch():
    told = []
    options = BenchOptions(epochs=2, notify=told.append)
    bench(small_config(), triangles(), CPU, options)
    assert told == ["epoch 1 of 3 (warm-up)", "epoch 2 of 3", "epoch 3 of 3"]


@pytest.mark.parametrize("name", ["gin", "pna-ak+", "gin-ak+-s"])
def test_bench_runs_any_model_with_recomputation(name):
    config = small_config(model__name=name, train__clip=1.0, train__precision="64")
    machine = Machine("cpu", recompute=True)
    record = bench(config, edge_counts(), machine, ONCE)
    assert record["recompute"]
    assert record["seconds"]["epoch"] > 0


@pytest.mark.heavy
def test_bench_both_has_the_ratio_with_the_fast_path():
    fast, plain = bench_both(small_config(), triangles(), CPU, ONCE)
    assert (fast["fast"], plain["fast"]) == (True, False)
    ratio = plain["seconds"]["epoch"] / fast["seconds"]["epoch"]
    assert math.isclose(fast["ratio"], ratio, rel_tol=1e-4)
    assert plain["ratio"] is None


def test_bench_refuses_more_graphs_than_there_are():
    with pytest.raises(OptionError, match=r"graphs is 17, but triangles has 16"):
        bench(small_config(), triangles(), CPU, BenchOptions(graphs=17))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("captures", "size", "epochs"),
    [
        pytest.param(False, 8, 1, marks=pytest.mark.slow),
        (True, 8, 4),
        (True, 7, 3),
        pytest.param(True, 5, 4, marks=pytest.mark.slow),
        pytest.param(True, 17, 1, marks=pytest.mark.slow),
    ],
    ids=["never", "two batches", "a short one", "a joined one", "less than one"],
)
def test_bench_warms_up_until_steps_are_captured(captures, size, epochs, monkeypatch):
    monkeypatch.setattr(bench_module, "WARM_BATCHES", 7)
    monkeypatch.setattr(Machine, "captures", lambda *_: captures)
    told = []
    options = BenchOptions(epochs=1, notify=told.append)
    bench(small_config(train__batch_size=size), triangles(), CPU, options)
    assert sum("warm-up" in words for words in told) == epochs


@pytest.mark.parametrize("options", [{"graphs": 1}, {"epochs": 0}, {"warm_up": -1}])
def test_bench_options_are_checked(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        BenchOptions(**options)


def test_bench_explains_out_of_memory(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(bench_module, "make_trainer", full)
    with pytest.raises(TrainingError, match=r"seed 0 needs more memory.*--recompute"):
        bench(small_config(), triangles(), CPU, ONCE)


@pytest.mark.heavy
def test_kernels_are_profiled_after_all_timing(monkeypatch):
    order, timed = [], bench_module._timed

    def noted(config, dataset, machine, *more):
        order.append(("timed", machine.fast))
        return timed(config, dataset, machine, *more)

    def listed(record, config, dataset, machine, *_):
        order.append(("listed", machine.fast))
        return record | {"kernels": machine.fast}

    monkeypatch.setattr(bench_module, "_timed", noted)
    monkeypatch.setattr(bench_module, "with_kernels", listed)
    options = BenchOptions(epochs=1, profile=True)
    found = bench_both(small_config(), triangles(), CPU, options)
    wanted = [(what, fast) for what in ("timed", "listed") for fast in (True, False)]
    assert order == wanted
    assert [record["kernels"] for record in found] == [True, False]
    assert found[0]["ratio"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("captures", "epochs"), [(False, 1), (True, 4)])
def test_kernels_are_profiled_in_a_separate_run(captures, epochs, monkeypatch):
    monkeypatch.setattr(bench_module, "WARM_BATCHES", 7)
    record, profiled = bench(small_config(), triangles(), CPU, ONCE), []
    short_run = bench_module.short_run

    def on_a_cpu(config, dataset, parts, machine, number, meters):
        short_run(config, dataset, parts, CPU, number, meters)
        watch, kernels = meters
        assert kernels.epoch == watch.warm_up == number - 1 == epochs
        profiled.append((kernels.steps, watch.training))

    monkeypatch.setattr(bench_module, "short_run", on_a_cpu)
    gpu = SimpleNamespace(is_gpu=True, captures=lambda *_: captures)
    found = with_kernels(record, small_config(), triangles(), gpu, ONCE)
    # A CPU has no kernels to list, but its steps are profiled, and none is timed.
    assert profiled == [(2, [])]
    assert found.pop("kernels")["calls"] == 0
    assert record.pop("kernels") is None
    assert found == record


@needs_gpu
def test_bench_on_a_gpu_lists_kernels_and_their_share():
    options = BenchOptions(epochs=1, profile=True)
    record = bench(small_config(), triangles(), Machine("gpu"), options)
    kernels = record["kernels"]
    assert kernels["share"] > 0
    assert 0 < len(kernels["top"]) <= 12
    assert record["accelerator"] == "cuda"
    assert len(record["epochs"]) == 1


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
    options = replace(FEW, notify=told.append)
    (record,) = grow("nodes", config, load, CPU, options, values=(12,))
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
