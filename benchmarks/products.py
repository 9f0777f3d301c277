"""Compare fused kernels (BatchNorm, ReLU, matrix product) with separate ones.

The matrices have the sizes of a training step on ZINC and on CIFAR10. The fused and the
separate variant are captured as CUDA graphs, as in training, and replayed alternately.
Products are in TF32 (float32 with inputs rounded to 10 bits of mantissa). A GPU is
needed. In two comparisons, the variants do not do the same work: the fused "rows
gradient" needs one pass over the rows less than the separate kernels, and the fused
"product only" also computes the mean and variance that the next norm needs. Run

    python -m benchmarks.products
"""

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.fast.kernels import gpu as fast
from gnnak.fast.kernels import plain
from gnnak.fast.kernels.gpu import product as product_module
from gnnak.fast.kernels.records import NormConstants

REPEATS, INSIDE = 30, 8
"""Number of timed replays of a captured graph, and how often the graph repeats the
work."""


class Case(NamedTuple):
    """A matrix product in a GNN-AK layer: [rows, inner] times [inner, outer]."""

    name: str
    rows: int
    inner: int
    outer: int
    keeps: bool
    """Whether the layer saves the normalised rows for backward. If so, its forward pass
    uses separate kernels for norm and product, and only the backward pass is
    compared."""


CASES = [
    Case("ZINC, inside of GINE", 29_700, 144, 144, False),
    Case("ZINC, before pooling", 29_700, 144, 256, True),
    Case("CIFAR10, inside of GINE", 441_000, 144, 144, False),
    Case("CIFAR10, before pooling", 441_000, 144, 256, True),
    Case("CIFAR10, second transform", 441_000, 128, 128, False),
]


def captured(work: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Capture `INSIDE` calls of the function `work` as one CUDA graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(INSIDE):
            work()
    return graph


def milliseconds(works: list[Callable[[], Any]]) -> list[float]:
    """Return the median time of each function in milliseconds.

    The functions are captured as CUDA graphs and replayed alternately.
    """
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
    """Return the comparisons of a case, by name.

    Each is a pair of functions: one calls the fused kernel, one the separate kernels.
    """
    rows, inner, outer = case.rows, case.inner, case.outer
    real = torch.tensor(rows - 5, device="cuda")
    norm = torch.nn.BatchNorm1d(outer, device="cuda")
    scale, shift, mean, rstd = torch.rand(4, inner, device="cuda")
    k = NormConstants(scale, shift, mean, rstd, True, real)
    h, grad = (torch.randn(rows, width, device="cuda") for width in (inner, outer))
    s = torch.randn_like(h) if case.keeps else None
    matrix = torch.randn(outer, inner, device="cuda")

    def separately() -> Tensor:
        out, _ = plain.norm_linear(h, k, matrix, None, real, fast.norm_act)
        return fast.norm_constants(out, norm, real).scale

    def together() -> Tensor:
        out, moments = fast.norm_linear(h, k, matrix, None, real)
        return fast.norm_constants(out, norm, real, moments).scale

    given: Any = (grad, h, k, s, matrix, None, torch.empty_like(h))
    separate: Any = (fast.norm_act, fast.norm_act_backward)
    backward = {
        "backward": [
            lambda: fast.norm_linear_backward(*given),
            lambda: plain.norm_linear_backward(*given, *separate),
        ],
        "rows gradient": [
            lambda: product_module._grad_rows(grad, h, k, matrix, None),
            lambda: fast.norm_act_backward(grad @ matrix, h, k, True),
        ],
    }
    if case.keeps:
        return backward
    return backward | {
        "forward": [together, separately],
        "product only": [
            lambda: fast.norm_linear(h, k, matrix, None, real),
            lambda: fast.norm_act(h, k, True, None) @ matrix.t(),
        ],
    }


def main() -> None:
    """Time all comparisons of all cases; print one line for each."""
    torch.set_float32_matmul_precision("high")
    for case in CASES:
        for name, works in ways(case).items():
            one, two = milliseconds(works)
            print(
                f"{case.name:26} {name:14}"
                f" {one:7.3f} ms, separate {two:7.3f} ms ({one / two:4.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
