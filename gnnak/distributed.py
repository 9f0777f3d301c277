"""Collective operations of distributed training, also inside of captured steps."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

Collective = Callable[[], object]
"""Runs one collective operation, which all processes run in the same order."""
_alone: ContextVar[bool] = ContextVar("alone", default=False)
_run: ContextVar[Callable[[Collective], object] | None] = ContextVar(
    "run_collective", default=None
)


def several_processes() -> bool:
    """Return whether several processes train the model (distributed data parallel)."""
    initialized = dist.is_available() and dist.is_initialized()
    if not initialized or dist.get_world_size() == 1:
        return False
    return torch.compiler.is_compiling() or not _alone.get()


@contextmanager
def one_process() -> Iterator[None]:
    """Context manager: compute as if this process was the only one."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


@contextmanager
def collectives_run_by(run: Callable[[Collective], object]) -> Iterator[None]:
    """Context manager: `run(collective)` is called in place of `collective()`."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


def _start(collective: Collective) -> None:
    run = None if torch.compiler.is_compiling() else _run.get()
    if run is None:
        collective()
    else:
        run(collective)


def sum_over_processes(values: Tensor, group: Any = None) -> Tensor:
    """Sum a tensor over all processes, in place."""
    _start(lambda: dist.all_reduce(values, group=group))
    return values


def gather_processes(values: Tensor) -> Tensor:
    """Stack the tensors of all processes, which have equal shapes."""
    found = values.new_zeros(dist.get_world_size(), *values.shape)
    found[dist.get_rank()] = values
    return sum_over_processes(found)


def average_gradients(weights: Iterable[Tensor], group: Any = None) -> None:
    """Average gradients over all processes, in place, by one collective operation."""
    processes = dist.get_world_size(group)
    if processes == 1:
        return
    grads = []
    for weight in weights:
        if weight.requires_grad:
            weight.grad = (
                torch.zeros_like(weight) if weight.grad is None else weight.grad
            )
            grads.append(weight.grad)
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    sum_over_processes(flat, group).div_(processes)
    parts = flat.split([grad.numel() for grad in grads])
    views = [part.view(grad.shape) for part, grad in zip(parts, grads, strict=True)]
    torch._foreach_copy_(grads, views)


def can_average(model: nn.Module) -> TypeGuard[DistributedDataParallel]:
    """Return whether `average_gradients` can replace the hooks of a wrapped model."""
    return (
        isinstance(model, DistributedDataParallel)
        and not model._comm_hooks
        and model.mixed_precision is None
        and not (model.find_unused_parameters or model.static_graph)
        and not model.parameters_to_ignore
        and not any(getattr(module, "sparse", False) for module in model.modules())
    )


@contextmanager
def without_hooks(model: DistributedDataParallel) -> Iterator[None]:
    """Context manager: the wrapper broadcasts buffers now, and averages no gradients.

    Its hooks could not be captured as CUDA graphs.
    """
    several = dist.get_world_size(model.process_group) > 1
    if several and model.will_sync_module_buffers():
        model._sync_buffers()
    before = model.require_forward_param_sync
    model.require_forward_param_sync = False
    try:
        with model.no_sync(), warnings.catch_warnings():
            # Warm-ups of a capture run on another stream than the wrapper was built on.
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")
            yield
    finally:
        model.require_forward_param_sync = before
