"""Products of normed rows: one kernel each, against a norm and a product.

Sizes are those of a training step of ZINC and of CIFAR10. Both ways are captured, as a
training step is, and replayed in turns, in one run, with TF32 products; a GPU is
needed. The gradient "of rows alone" is one pass short of what it is compared with, and
"product alone" has moments that the other has not. Run

    python -m benchmarks.products
"""

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.fast.kernels import gpu as fast
from gnnak.fast.kernels.gpu import product_backward
from gnnak.fast.kernels.plain import product as composed
from gnnak.fast.kernels.records import NormConstants

REPEATS, INSIDE = 30, 8
"""Replays that are timed, and how often each does the work."""


class Case(NamedTuple):
    """A product of one of the layers."""

    name: str
    rows: int
    inner: int
    outer: int
    keeps: bool
    """Whether the rows that are multiplied are there in the backward pass; forward, a
    norm and a product are what is run then."""


CASES = [
    Case("ZINC, inside of GINE", 29_700, 144, 144, False),
    Case("ZINC, before pooling", 29_700, 144, 256, True),
    Case("CIFAR10, inside of GINE", 441_000, 144, 144, False),
    Case("CIFAR10, before pooling", 441_000, 144, 256, True),
    Case("CIFAR10, second transform", 441_000, 128, 128, False),
]


def captured(work: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """The work, `INSIDE` times, as a graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(INSIDE):
            work()
    return graph


def milliseconds(works: list[Callable[[], Any]]) -> list[float]:
    """The median time of each, taken in turns."""
    graphs = [captured(work) for work in works]
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS + 3):
        for graph, times in zip(graphs, taken, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / INSIDE)
    return [median(times[3:]) for times in taken]


def ways(case: Case) -> dict[str, list[Callable[[], Any]]]:
    """What is compared: by name, the fused kernels and what they stand for."""
    rows, inner, outer = case.rows, case.inner, case.outer
    real = torch.tensor(rows - 5, device="cuda")
    norm = torch.nn.BatchNorm1d(outer, device="cuda")
    scale, shift, mean, rstd = torch.rand(4, inner, device="cuda")
    k = NormConstants(scale, shift, mean, rstd, True, real)
    h, grad = (torch.randn(rows, width, device="cuda") for width in (inner, outer))
    s = torch.randn_like(h) if case.keeps else None
    matrix = torch.randn(outer, inner, device="cuda")

    def separately() -> Tensor:
        out = composed.compose_norm_linear(fast.norm_act, h, k, matrix, None)
        return fast.norm_constants(out, norm, real).scale

    def together() -> Tensor:
        out, moments = fast.norm_linear(h, k, matrix, None, real)
        return fast.norm_constants(out, norm, real, moments).scale

    given: Any = (grad, h, k, s, matrix, None, torch.empty_like(h))
    kernels: Any = (fast.norm_act, fast.norm_act_backward)
    backward = {
        "backward": [
            lambda: fast.norm_linear_backward(*given),
            lambda: composed.compose_norm_linear_backward(*kernels, *given),
        ],
        "of rows alone": [
            lambda: product_backward._grad_rows(grad, h, k, matrix, None),
            lambda: fast.norm_act_backward(grad @ matrix, h, k, True),
        ],
    }
    if case.keeps:
        return backward
    return backward | {
        "forward": [together, separately],
        "product alone": [
            lambda: fast.norm_linear(h, k, matrix, None, real),
            lambda: fast.norm_act(h, k, True, None) @ matrix.t(),
        ],
    }


def main() -> None:
    """Print a line for every case and way."""
    torch.set_float32_matmul_precision("high")
    for case in CASES:
        for name, works in ways(case).items():
            one, two = milliseconds(works)
            print(
                f"{case.name:26} {name:14}"
                f" {one:7.3f} ms, apart {two:7.3f} ms ({one / two:4.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
