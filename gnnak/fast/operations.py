"""Fast sampling, padding and steps: operations that belong to no layer.

Modules of Triton kernels are imported when they are first used.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gnnak.fast.sampling import can_sample
from gnnak.fast.step.captured import (
    CapturedModel,
    CapturedStep,
    Step,
    find_synchronising,
)
from gnnak.fast.step.recorder import GraphRecorder
from gnnak.fast.step.update import CapturedUpdate, step_on_streams
from gnnak.loading.items import Item
from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.estimate import Filling
from gnnak.sampling.greedy import Ties
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.rooted import RootedSubgraphs


def sample_roots(
    farthest: bool,
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> Tensor:
    """Sample roots by farthest-point sampling, or else by greedy set cover, [s]."""
    if not can_sample(plan):
        return NotImplemented
    from gnnak.fast.sampling.kernels import sample_greedily

    rank = random_order(subgraphs, generator)
    return sample_greedily(subgraphs, plan, min_coverage, rank, farthest, ties)


def filling_of(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    sampled: Tensor,
    number: Tensor,
    root: Tensor,
    plan: Plan | None,
) -> Filling:
    if plan is None or not can_sample(plan):
        return NotImplemented
    from gnnak.fast.sampling.kernels import fast_filling

    return fast_filling(subgraphs, plan, sampled, number)


def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    if not has_triton() or not (value.is_cuda or interprets_triton()):
        return NotImplemented
    from gnnak.fast import padding as kernels

    return kernels.pad_rows(value, first, count, size, padding)


def can_capture(network: nn.Module, device: torch.device, precision: str) -> bool:
    if device.type != "cuda" or precision == "16":
        return False
    return find_synchronising(network, precision) is None


def make_captured(
    step: Step, device: torch.device, release: Callable[[], object]
) -> Step:
    if device.type != "cuda":
        return NotImplemented
    return CapturedStep(step, GraphRecorder(device), release)


def make_captured_model(
    forward: Callable[[Item], Any],
    weights: Sequence[nn.Parameter],
    device: torch.device,
    update: Callable[[], object],
    optimizer: torch.optim.Optimizer,
) -> Callable[[Item], Any]:
    if device.type != "cuda":
        return NotImplemented
    recorder = GraphRecorder(device)
    captured = CapturedUpdate(update, optimizer, recorder, recorder.device)
    return CapturedModel(forward, recorder, weights, captured)


def take_step(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        return NotImplemented
    return step_on_streams(optimizer, device)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "farthest_roots": partial(sample_roots, True),
    "set_cover_roots": partial(sample_roots, False),
    "filling_of": filling_of,
    "pad_rows": pad_rows,
    "can_capture": can_capture,
    "make_captured": make_captured,
    "make_captured_model": make_captured_model,
    "take_step": take_step,
}
"""The fast implementations by name of the operation."""
