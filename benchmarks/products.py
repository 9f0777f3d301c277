"""Compare fused kernels (BatchNorm, ReLU, matrix product) with separate ones.

Sizes are those of a training step on ZINC and on CIFAR10. Both variants are captured as
CUDA graphs, as in training, and replayed alternately, with products in TF32 (float32
with inputs rounded to 10 bits of mantissa). A GPU is needed. Two comparisons are not
quite equal: the fused "rows gradient" does one pass less than the separate kernels, and
the fused "product only" also computes the moments that the next norm needs. Run

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
"""Number of timed replays, and how often a captured graph repeats the work."""


class Case(NamedTuple):
    """A product in one of the layers: [rows, inner] times [inner, outer]."""

    name: str
    rows: int
    inner: int
    outer: int
    keeps: bool
    """Whether the normalised rows are saved for backward. The layer then runs a norm
    and a product in the forward pass, so only the backward pass is compared."""


CASES = [
    Case("ZINC, inside of GINE", 29_700, 144, 144, False),
    Case("ZINC, before pooling", 29_700, 144, 256, True),
    Case("CIFAR10, inside of GINE", 441_000, 144, 144, False),
    Case("CIFAR10, before pooling", 441_000, 144, 256, True),
    Case("CIFAR10, second transform", 441_000, 128, 128, False),
]


def captured(work: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Capture `INSIDE` repeats of the work as a CUDA graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(INSIDE):
            work()
    return graph


def milliseconds(works: list[Callable[[], Any]]) -> list[float]:
    """Return the median time of each function; they alternate."""
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
    """Return, by name, pairs of functions: the fused kernel and the separate ones."""
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
        "rows gradient": [
            lambda: product_backward._grad_rows(grad, h, k, matrix, None),
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
    """Print a line for every case and comparison."""
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
