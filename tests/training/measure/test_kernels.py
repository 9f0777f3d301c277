from types import SimpleNamespace

import pytest
from torch.autograd import DeviceType

from gnnak.loading import prefetch
from gnnak.training.measure import bench as bench_module
from gnnak.training.measure.bench import (
    PHASES,
    KernelTime,
    KernelTimes,
    PhaseTimes,
    Stopwatch,
    kernel_times,
    kernels_share,
    short_run,
)
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import choose_parts
from tests.training.small import small_config, triangles

SUM = "void at::native::(anonymous namespace)::sum<float>(float*, int)"


def event(key, count, taken, device=DeviceType.CUDA, annotation=False):
    return SimpleNamespace(
        key=key,
        count=count,
        self_device_time_total=taken,
        device_type=device,
        is_user_annotation=annotation,
    )


def test_kernel_times_are_those_of_one_step_longest_first():
    events = [
        event(SUM, 10, 50.0),
        event("matmul", 20, 400.0),
        event("aten::mm", 20, 400.0, DeviceType.CPU),
        event("Optimizer.step", 10, 900.0, annotation=True),
    ]
    assert kernel_times(events, 10) == [
        KernelTime("matmul", 2.0, 40.0),
        KernelTime("sum<float>", 1.0, 5.0),
    ]


def test_kernel_times_merge_kernels_of_one_short_name():
    events = [event(SUM, 1, 2.0), event(SUM.replace("int", "long"), 3, 4.0)]
    assert kernel_times(events, 1) == [KernelTime("sum<float>", 4.0, 6.0)]


def test_kernels_share_is_their_time_divided_by_that_of_a_step():
    found = KernelTimes(0)
    found.kernels = [KernelTime(f"k{n}", 1.0, 10.0) for n in range(20)]
    share = kernels_share(found, 0.0004)
    assert share["share"] == 0.5
    assert share["calls"] == 20
    assert len(share["top"]) == 12
    assert share["top"][0] == {"name": "k0", "calls": 1.0, "microseconds": 10.0}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("batch_size", "steps"), [(8, 3), pytest.param(2, 10, marks=pytest.mark.slow)]
)
def test_kernel_times_profile_and_stop_one_more_epoch(batch_size, steps):
    dataset, config = triangles(24), small_config(train__batch_size=batch_size)
    watch, phases, found = Stopwatch(0, 1), PhaseTimes(), KernelTimes(1)
    parts = choose_parts(dataset, "split")
    meters = watch, phases, found
    trainer = short_run(config, dataset, parts, Machine("cpu"), 2, meters)
    assert found.steps == steps
    assert found.kernels == []
    assert len(watch.training) == 1
    assert set(phases.seconds) == set(PHASES)
    assert trainer.global_step == trainer.num_training_batches + steps


@pytest.mark.heavy
def test_profiler_starts_and_stops_while_prefetching_is_paused(monkeypatch):
    seen = []

    class Profile:
        """Records whether prefetching is paused when it starts and stops."""

        def __init__(self, acc_events):
            pass

        def __enter__(self):
            seen.append(prefetch._making.locked())
            return self

        def __exit__(self, *_):
            seen.append(prefetch._making.locked())

        def key_averages(self):
            return []

    monkeypatch.setattr(bench_module, "profile", Profile)
    dataset, found = triangles(32), KernelTimes(1)
    meters = Stopwatch(0, 1), PhaseTimes(), found
    parts = choose_parts(dataset, "split")
    short_run(small_config(), dataset, parts, Machine("cpu"), 2, meters)
    assert seen == [True] * 4
    assert found.steps > 0
