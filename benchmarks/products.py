"""Compare fused kernels (BatchNorm, ReLU, matrix product) with separate ones.

The matrices have the sizes of a training step on ZINC and on CIFAR10, in float32 (with
products in TF32) and in bfloat16. Both variants are captured as CUDA graphs, as in
training, and replayed alternately. "forward" includes the mean and variance that the
next norm needs; "without norm" is a product whose input is not normalised. A GPU is
needed. Run

    python -m benchmarks.products
"""

from collections.abc import Callable
from functools import partial
from itertools import product as product_of
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.fast.kernels import gpu as fast
from gnnak.fast.kernels.gpu import product
from gnnak.fast.kernels.records import NormConstants
from gnnak.nn.norm import BatchNorm

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


def forced(separate: bool, work: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that calls `work` with separate or with fused kernels."""

    def run() -> Any:
        chosen, product.is_separate = product.is_separate, lambda h: separate
        try:
            return work()
        finally:
            product.is_separate = chosen

    return run


def ways(case: Case, dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Return the work to compare, by name."""
    rows, inner, outer = case.rows, case.inner, case.outer
    real = torch.tensor(rows - 5, device="cuda")
    norm = BatchNorm(outer, device="cuda")
    scale, shift, mean, rstd = torch.rand(4, inner, device="cuda")
    k = NormConstants(scale, shift, mean, rstd, True, real)
    h = torch.randn(rows, inner, device="cuda", dtype=dtype)
    grad = torch.randn(rows, outer, device="cuda", dtype=dtype)
    s = torch.randn_like(h) if case.keeps else None
    matrix, into = torch.randn(outer, inner, device="cuda"), torch.empty_like(h)

    def forward(k: NormConstants | None) -> Tensor:
        out, moments = fast.norm_linear(h, k, matrix, None, real)
        return fast.norm_constants(out, norm, real, moments).scale

    def backward() -> Any:
        return fast.norm_linear_backward(grad, h, k, s, matrix, None, into)

    if case.keeps:
        return {"backward": backward}
    return {
        "forward": partial(forward, k),
        "without norm": partial(forward, None),
        "backward": backward,
    }


def main() -> None:
    """Time all comparisons of all cases; print one line for each."""
    torch.set_float32_matmul_precision("high")
    for dtype, case in product_of((torch.float, torch.bfloat16), CASES):
        for name, work in ways(case, dtype).items():
            one, two = milliseconds([forced(False, work), forced(True, work)])
            print(
                f"{case.name:26} {str(dtype).removeprefix('torch.'):9} {name:13}"
                f" {one:7.3f} ms, separate {two:7.3f} ms ({one / two:4.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
