"""Register fast implementations, and inspect the modules that these replace."""

from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from gnnak.nn.norm import BatchNorm, several_processes

F = TypeVar("F", bound=Callable[..., Any])
Serves = Callable[[Tensor], bool]
"""A function that tells whether fast implementations may be used for a tensor."""
REDUCES = ("sum", "mean")
"""Reductions that fast implementations compute; others run in plain PyTorch."""


def implements(*operations: str) -> Callable[[F], F]:
    """Decorator: mark a function as the fast implementation of named operations.

    The function takes a `Serves` and the arguments of the operation. It returns
    `NotImplemented` for arguments that it does not support.
    """

    def mark(function: F) -> F:
        function.operations = operations  # type: ignore[attr-defined]
        return function

    return mark


def implementations_in(
    serves: Serves, *modules: ModuleType
) -> dict[str, Callable[..., Any]]:
    """Map the name of each operation to the fast implementation found in `modules`."""
    return {
        name: partial(value, serves)
        for module in modules
        for value in vars(module).values()
        if isinstance(value, FunctionType)
        for name in getattr(value, "operations", ())
    }


class TwoLinears(NamedTuple):
    """The Linears and the norm of an MLP made of Linear, norm, ReLU, Linear."""

    first: nn.Linear
    """The Linear before the norm, without a bias."""
    norm: BatchNorm
    second: nn.Linear
    """The last Linear, with or without a bias."""


class Block(NamedTuple):
    """The Linear (without a bias) and the norm of one block: Linear, norm, ReLU."""

    linear: nn.Linear
    norm: BatchNorm


def can_store(dtype: torch.dtype) -> bool:
    """Return whether fused layers may store rows in a dtype: full precision or bf16."""
    return dtype in (torch.float, torch.double, torch.bfloat16)


def autocast_dtype(values: Tensor) -> torch.dtype | None:
    """Return the dtype to which autocast converts a tensor; None if it does not."""
    kind = values.device.type
    converts = torch.is_autocast_enabled(kind) and values.dtype != torch.double
    return torch.get_autocast_dtype(kind) if converts else None


def has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def is_fusable(norm: BatchNorm) -> bool:
    return norm.affine and norm.track_running_stats and norm.momentum is not None


def can_fuse_norm(norm: BatchNorm, x: Tensor) -> bool:
    rows = x.dim() == 2 and x.size(0) > 1 and x.stride(1) == 1
    return rows and is_fusable(norm) and not several_processes()


def blocks_of(transform: nn.Module) -> list[Block]:
    """Return the blocks (Sequentials of Linear, norm, ReLU) of an MLP."""
    blocks = [cast(Any, [*block.children()]) for block in transform.children()]
    return [Block(linear, norm) for linear, norm, _ in blocks]


def two_linears(module: nn.Module) -> TwoLinears | None:
    """Return the parts of an MLP (Linear, norm, ReLU, Linear); None if not fusable."""
    blocks = [*module.children()] if isinstance(module, nn.Sequential) else []
    if len(blocks) != 2 or not isinstance(blocks[0], nn.Sequential):
        return None
    parts = *blocks[0], blocks[1]
    if [*map(type, parts)] != [nn.Linear, BatchNorm, nn.ReLU, nn.Linear]:
        return None
    first, norm, _, second = cast(Any, parts)
    fits = first.bias is None and is_fusable(norm)
    return TwoLinears(first, norm, second) if fits else None
