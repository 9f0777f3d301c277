import threading
import time
import warnings
from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
import torch.distributed as dist

from gnnak.distributed import sum_over_processes
from gnnak.fast.step import recorder as recorder_module
from gnnak.fast.step.captured import CapturedStep
from gnnak.fast.step.recorder import GraphRecorder, synchronisations_recorded
from gnnak.loading import padder
from gnnak.loading.prefetch import Prefetcher
from gnnak.loop.step import backward_in_calling_thread
from gnnak.training import callbacks as callbacks_module
from gnnak.training.processes.machine import Machine
from gnnak.training.run import run
from tests.fast.recorders import make_recorder
from tests.fast.step.fixed import MODELS, fixed_config, fixed_items, fixed_step, trained
from tests.gpu import needs_gpu
from tests.loading.fake_stream import FakeStream
from tests.training.small import (
    edge_counts,
    small_config,
    stopped_after,
    triangles,
    well_joined,
)

pytestmark = pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")


def test_forget_resets_all_graphs_before_their_memory_goes_back(monkeypatch):
    calls = []
    graph = SimpleNamespace(reset=lambda: calls.append("reset"))
    stand_ins = {
        "graph_pool_handle": object,
        "synchronize": lambda _: calls.append("synchronize"),
        "empty_cache": lambda: calls.append("empty_cache"),
        "max_memory_allocated": lambda _: 0,
        "reset_peak_memory_stats": lambda _: calls.append("count anew"),
        "memory_snapshot": list,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    streams = SimpleNamespace(capture=SimpleNamespace(device_index=0))
    monkeypatch.setattr("gnnak.fast.step.recorder.own_streams", lambda _: streams)
    recorder = GraphRecorder(torch.device("cuda"))
    pool, recorder.graphs = recorder.pool, [graph, graph]
    recorder.release()
    assert calls == ["synchronize", "reset", "reset", "empty_cache", "count anew"]
    assert recorder.graphs == []
    assert recorder.pool is not pool


def test_all_captures_lock_the_stream_also_those_after_a_failed_one(monkeypatch):
    locked = []

    def capture(*_, **options):
        locked.append(recorder_module._capturing._is_owned())
        return nullcontext()

    stand_ins = {
        "graph_pool_handle": object,
        "CUDAGraph": object,
        "graph": capture,
        "current_stream": lambda _: None,
        "set_stream": lambda _: None,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(torch._C, name, lambda *_: None, raising=False)
    streams = SimpleNamespace(capture=SimpleNamespace(device_index=0))
    monkeypatch.setattr(recorder_module, "own_streams", lambda _: streams)
    monkeypatch.setattr(recorder_module, "graph_pools_changing", nullcontext)
    monkeypatch.setattr(GraphRecorder, "failed", [])
    recorder = GraphRecorder(torch.device("cuda"))
    monkeypatch.setattr(recorder, "_reserve", lambda: None)
    with pytest.raises(ZeroDivisionError):
        recorder.record(lambda: torch.tensor(1 / 0))
    assert locked == [True, True]


class FakeGraph:
    """Writes its calls to a list."""

    calls: ClassVar[list[str]] = []

    def __getattr__(self, name):
        return lambda *_, **__: self.calls.append(name)


def test_replays_run_collective_operations_that_the_capture_leaves_out(monkeypatch):
    class Capture:
        def __init__(self, graph, *_, **__):
            self.cuda_graph = graph

        def __enter__(self):
            self.cuda_graph.capture_begin()

        def __exit__(self, *_):
            self.cuda_graph.capture_end()

    for name, value in (("CUDAGraph", FakeGraph), ("graph", Capture)):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    streams = SimpleNamespace(capture=SimpleNamespace(device_index=0))
    monkeypatch.setattr(recorder_module, "own_streams", lambda _: streams)
    monkeypatch.setattr(recorder_module, "graph_pools_changing", nullcontext)
    calls = []
    monkeypatch.setattr(FakeGraph, "calls", calls)
    monkeypatch.setattr(dist, "all_reduce", lambda *_, **__: calls.append("sum"))
    recorder = GraphRecorder(torch.device("cuda"))
    monkeypatch.setattr(recorder, "_reserve", lambda: None)
    values = torch.ones(2)
    replay = recorder.record(lambda: sum_over_processes(values).sum())
    captured = ["capture_begin", "capture_end"]
    assert calls == captured * 2
    calls.clear()
    assert [replay(), replay()] == [2, 2]
    assert calls == ["replay", "sum", "replay"] * 2


@needs_gpu
def test_collective_operations_run_between_replays(monkeypatch):
    recorder = make_recorder(torch.device("cuda"))
    rate = torch.ones((), device="cuda")
    sums = []

    def double(values, group):
        sums.append(float(values))
        values.mul_(2)

    monkeypatch.setattr(dist, "all_reduce", double)

    def work():
        weight = torch.ones((), device="cuda", requires_grad=True)
        once = sum_over_processes(weight.detach() * rate)
        loss = (weight * once).square()
        with backward_in_calling_thread():
            (grad,) = torch.autograd.grad(loss, weight)
        return sum_over_processes(grad) + 1

    assert recorder.warm_up(work) == 17
    assert not recorder.synchronisations
    replay = recorder.record(work)
    assert sums == [1, 8]
    rate.fill_(3)
    assert [float(replay()), float(replay())] == [145, 145]
    assert sums == [1, 8, 3, 72, 3, 72]


@needs_gpu
def test_record_does_nothing_and_its_replays_do_it_again_and_again():
    recorder = make_recorder(torch.device("cuda"))
    count, rate = torch.zeros(4, device="cuda"), torch.ones((), device="cuda")

    def work():
        count.add_(rate)
        return count.sum()

    assert recorder.warm_up(work) == 4
    replay = recorder.record(work)
    assert count.tolist() == [1.0] * 4
    first = replay()
    rate.fill_(10)
    assert [float(first), float(replay())] == [8.0, 48.0]


def reserved_after_forgetting(recorder, megabytes):
    """Bytes reserved once work of this size was captured, replayed and forgotten."""
    count = torch.zeros((), device="cuda")

    def work():
        large = torch.ones(megabytes * 2**18, device="cuda")
        return count.add_(large.max())

    for _ in range(2):
        recorder.warm_up(work)
    replay = recorder.record(work)
    assert [float(replay()) for _ in range(2)] == [3.0, 4.0]
    assert torch.cuda.memory_reserved() >= megabytes * 2**20
    del replay
    recorder.release()
    return torch.cuda.memory_reserved()


@needs_gpu
def test_forget_gives_the_memory_of_graphs_back_and_others_can_be_captured():
    recorder = make_recorder(torch.device("cuda"))
    first = reserved_after_forgetting(recorder, 64)
    others = [reserved_after_forgetting(recorder, size) for size in (128, 256, 64)]
    assert max(others) <= first + 4 * 2**20


@needs_gpu
def test_smaller_work_is_captured_in_the_memory_of_the_first():
    recorder, sizes = make_recorder(torch.device("cuda")), (64, 48, 16)
    count, replays, reserved = torch.zeros((), device="cuda"), [], []
    for megabytes in sizes:

        def work(megabytes=megabytes):
            parts = torch.full((3, megabytes * 2**16), megabytes, device="cuda")
            return count.copy_((2.0 * parts).amax() / 2)

        assert recorder.warm_up(work) == megabytes
        replays.append(recorder.record(work))
        reserved.append(torch.cuda.memory_reserved())
    assert max(reserved) <= reserved[0] + 4 * 2**20
    for _ in range(2):
        assert [float(replay()) for replay in replays] == [*map(float, sizes)]


@needs_gpu
def test_graphs_with_random_numbers_survive_a_capture_that_fails():
    recorder = make_recorder(torch.device("cuda"))
    ones = torch.ones(1000, device="cuda")

    def dropped():
        return torch.dropout(ones, 0.5, train=True).sum()

    def synchronising():
        return torch.full((), float(dropped()), device="cuda")

    recorder.warm_up(dropped)
    replay = recorder.record(dropped)
    with pytest.raises(RuntimeError):
        recorder.record(synchronising)
    assert len({float(replay()) for _ in range(8)}) > 1
    assert len({float(dropped()) for _ in range(8)}) > 1
    again = recorder.record(dropped)
    assert len({float(again()) for _ in range(8)}) > 1
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@needs_gpu
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("precision", "close"), [("64", 1e-6), ("32", 1e-3), ("bf16", 0.1)]
)
def test_captured_step_on_a_gpu_trains_as_the_step_does(model, precision, close):
    options = {"train__clip": 0.5, "model__dropout": 0.2}
    config = fixed_config(model, train__precision=precision, **options)
    one, other = (trained(config, captured, "cuda") for captured in (False, True))
    torch.testing.assert_close(other, one, rtol=close, atol=close)


@needs_gpu
def test_captured_step_follows_the_seed_and_the_learning_rate():
    config = fixed_config("gin-ak+", model__dropout=0.5)
    item = fixed_items(config, 1, "cuda")[0]
    step, optimizer = fixed_step(config, "cuda")
    for _ in range(6):
        step(item)
    rate, weights = (optimizer.param_groups[0][name] for name in ("lr", "params"))
    rate.fill_(0)
    before = [weight.detach().clone() for weight in weights]
    drawn = []
    for seed in (5, 6, 5):
        torch.manual_seed(seed)
        drawn.append([float(step(item)) for _ in range(3)])
    assert drawn[0] == pytest.approx(drawn[2], abs=1e-4)
    assert drawn[0] != pytest.approx(drawn[1], abs=1e-4)
    assert drawn[0][0] != pytest.approx(drawn[0][1], abs=1e-4)
    assert all(map(torch.equal, before, weights))
    rate.fill_(0.01)
    step(item)
    assert not all(map(torch.equal, before, weights))


class Blind(GraphRecorder):
    """Does not see what waits: a capture of it breaks off in the middle."""

    def warm_up(self, work):
        result = super().warm_up(work)
        assert "test_recorder.py" in self.synchronisations[0]
        self.synchronisations = []
        return result


@needs_gpu
@pytest.mark.parametrize("recorder", [GraphRecorder, Blind])
def test_captured_step_that_synchronises_goes_on_uncaptured(recorder, caplog):
    config = fixed_config("gin-ak+", model__dropout=0.5, train__precision="64")
    losses = []
    for captured in (False, True):
        plain, _ = fixed_step(config, "cuda", captured=False)

        def waits(item, plain=plain):
            loss = plain(item)
            return loss + 0 * loss.item()

        step = CapturedStep(waits, recorder(torch.device("cuda")))
        torch.manual_seed(3)
        call = step if captured else waits
        losses.append([float(call(item)) for item in fixed_items(config, 9, "cuda")])
        assert step.gave_up == captured
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
    assert len(caplog.records) == 1
    torch.cuda.empty_cache()
    assert torch.rand(3, device="cuda").isfinite().all()


@pytest.fixture
def recorded(monkeypatch):
    found, record = [], GraphRecorder.record
    monkeypatch.setattr(
        GraphRecorder, "record", lambda *a: found.append(1) or record(*a)
    )
    return found


@needs_gpu
@pytest.mark.parametrize("model", MODELS)
def test_run_on_a_gpu_is_captured_and_equals_a_plain_one(model, tmp_path, recorded):
    config = small_config(
        model__name=model, train__precision="64", train__epochs=6, train__step=2
    )
    machines = Machine("gpu", fast=False), Machine("gpu")
    plain, fast = (
        run(config, triangles(), tmp_path / str(m.fast), m) for m in machines
    )
    assert recorded
    losses = [record["curves"]["train_loss"] for record in (fast, plain)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@needs_gpu
@pytest.mark.parametrize(
    ("data", "more"),
    [
        (edge_counts(240), {}),
        (
            well_joined(240),
            {"model__subgraphs__kind": "walks", "model__plain_conv": True},
        ),
    ],
    ids=["graphs", "nodes"],
)
def test_run_on_a_gpu_captures_a_few_shapes(
    data, more, tmp_path, monkeypatch, recorded
):
    monkeypatch.setattr(padder, "LEAST_STEP", 16)
    more |= {"data__name": data.info.name, "train__precision": "64", "train__epochs": 6}
    config = small_config(model__name="gin-ak+", **more)
    plain, fast = (
        run(config, data, tmp_path / str(fast), Machine("gpu", fast=fast))
        for fast in (False, True)
    )
    assert len(recorded) >= 3
    losses = [record["curves"]["train_loss"] for record in (fast, plain)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@needs_gpu
@pytest.mark.parametrize("fast", [(True, True), (False, True), (True, False)])
def test_run_on_a_gpu_can_be_resumed_captured_or_not(fast, tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 0.0)
    config = small_config(train__precision="64", train__epochs=6, train__step=2)
    first, second = (Machine("gpu", fast=wanted) for wanted in fast)
    whole = run(config, triangles(), tmp_path / "whole", second)
    with stopped_after(3, monkeypatch):
        run(config, triangles(), tmp_path / "part", first)
    rest = run(config, triangles(), tmp_path / "part", second, resume=True)
    losses = [record["curves"]["train_loss"] for record in (rest, whole)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.fixture
def mode(monkeypatch):
    """Stands in for PyTorch's debug mode, which only builds for CUDA have."""
    modes = [0]
    monkeypatch.setattr("torch.cuda.get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr("torch.cuda.set_sync_debug_mode", modes.append)
    return modes


def wait(modes):
    if modes[-1] == "warn":
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)


def test_synchronisations_are_recorded_with_their_place_in_any_thread(mode):
    with synchronisations_recorded() as waits:
        wait(mode)
        backward = threading.Thread(target=wait, args=(mode,))
        backward.start()
        backward.join()
    assert len(waits) == 2
    assert all(place.startswith("test_recorder.py, line ") for place in waits)
    assert mode[-1] == 0


def test_synchronisations_of_prefetching_are_not_recorded(mode):
    def results():
        for number in range(20):
            wait(mode)
            time.sleep(0.002)
            wait(mode)
            yield number

    noted = []
    for _ in Prefetcher(results(), FakeStream()):
        with synchronisations_recorded() as waits:
            time.sleep(0.002)
        noted += waits
    assert noted == []


def test_synchronisations_recorded_passes_other_warnings_on(mode):
    def work():
        with synchronisations_recorded() as waits:
            warnings.warn("something else", stacklevel=1)
            warnings.warn("mode is a prototype feature", stacklevel=1)
        return waits

    with pytest.warns(UserWarning, match="something else") as passed:
        assert work() == []
    assert len(passed) == 1
