from types import SimpleNamespace

from torch.autograd import DeviceType

from gnnak.training.kernels import KernelTime, KernelTimes, kernel_times, kernels_share

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


def test_kernel_times_put_kernels_of_one_short_name_together():
    events = [event(SUM, 1, 2.0), event(SUM.replace("int", "long"), 3, 4.0)]
    assert kernel_times(events, 1) == [KernelTime("sum<float>", 4.0, 6.0)]


def test_kernels_share_is_their_time_by_that_of_a_step():
    found = KernelTimes(0)
    found.kernels = [KernelTime(f"k{n}", 1.0, 10.0) for n in range(20)]
    share = kernels_share(found, 0.0004)
    assert share["share"] == 0.5
    assert share["calls"] == 20
    assert len(share["top"]) == 12
    assert share["top"][0] == {"name": "k0", "calls": 1.0, "microseconds": 10.0}
