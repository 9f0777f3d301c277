from types import SimpleNamespace

import torch
from torch import nn
from torch.autograd import DeviceType

from benchmarks.traffic import Traffic, microseconds, summary


def test_traffic_counts_inputs_and_outputs_once_and_views_never():
    with Traffic("cpu") as traffic:
        a, b = torch.rand(2, 3), torch.rand(3, 5)
        (a @ b.t().t()).relu_()
    assert traffic.calls["aten::mm"] == traffic.calls["aten::relu_"] == 1
    assert traffic.bytes["aten::mm"] == 4 * (6 + 15 + 10)
    assert traffic.bytes["aten::relu_"] == 4 * (10 + 10)
    assert "aten::t" not in traffic.bytes


def test_traffic_counts_an_expanded_tensor_by_its_distinct_elements():
    row, other = torch.rand(1, 4).expand(100, 4), torch.rand(100, 4)
    with Traffic("cpu") as traffic:
        torch.add(row, other)
    assert traffic.bytes["aten::add"] == 4 * (4 + 400 + 400)


def test_traffic_counts_the_backward_pass():
    layer = nn.Linear(3, 2, bias=False)
    with Traffic("cpu") as traffic:
        layer(torch.rand(7, 3)).sum().backward()
    assert traffic.calls["aten::mm"] == 2


def test_microseconds_are_of_triton_kernels_and_of_pytorch_operations():
    def event(name: str, device: DeviceType, taken: float, caller=None):
        return SimpleNamespace(
            name=name,
            device_type=device,
            self_device_time_total=taken,
            cpu_parent=caller,
        )

    linear = event("aten::linear", DeviceType.CPU, 0.0)
    product = event("aten::mm", DeviceType.CPU, 2.0, linear)
    events = [
        event("_messages", DeviceType.CUDA, 5.0),
        event("sm90_gemm", DeviceType.CUDA, 3.0),
        linear,
        product,
        event("aten::copy_", DeviceType.CPU, 1.0, product),
        event("cudaLaunchKernel", DeviceType.CPU, 9.0),
    ]
    taken = microseconds(events, {"_messages"}, {"aten::mm"})
    assert taken == {"_messages": 5.0, "aten::mm": 3.0, "aten::linear": 0.0}
    traffic = Traffic()
    traffic.calls["_messages"], traffic.bytes["_messages"] = 2, 4_000_000
    slow = {"name": "_messages", "calls": 2, "microseconds": 5.0, "megabytes": 4.0}
    other = {"name": "aten::mm", "calls": 0, "microseconds": 3.0, "megabytes": 0.0}
    assert summary(traffic, taken) == [slow, other]
