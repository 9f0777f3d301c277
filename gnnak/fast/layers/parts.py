"""What fast implementations share: registration, checks, and recomputed tensors.

If the backward pass of an autograd function reads a large tensor, `rows`, the function
saves this tensor or recomputes it::

    ctx.save_for_backward(..., *to_save(rows.values, rows.recompute))  # forward pass
    ctx.recompute = recompute_function(rows.recompute)
    values = saved_or_recomputed(saved_for_rows, ctx.recompute)  # backward pass
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from gnnak.distributed import several_processes
from gnnak.fast.kernels import kernels_of_backward
from gnnak.fast.kernels.records import Edges, Moments
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs

F = TypeVar("F", bound=Callable[..., Any])
Serves = Callable[[Tensor], bool]
"""Tells whether fast implementations may be used for a tensor."""
REDUCES = ("sum", "mean")
"""Reductions that fast implementations compute; others run in plain PyTorch."""


def implements(*operations: str) -> Callable[[F], F]:
    """Decorator: mark a function as the fast implementation of operations.

    The function takes a `Serves`, and then the arguments of the operation.
    """

    def mark(function: F) -> F:
        function.operations = operations  # type: ignore[attr-defined]
        return function

    return mark


def implementations_in(
    serves: Serves, *modules: ModuleType
) -> dict[str, Callable[..., Any]]:
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


class Block(NamedTuple):
    """The Linear (without a bias) and the norm of one block: Linear, norm, ReLU."""

    linear: nn.Linear
    norm: BatchNorm


def can_store(dtype: torch.dtype) -> bool:
    """Return whether fused layers may store rows in a dtype: full precision or bf16."""
    return dtype in (torch.float, torch.double, torch.bfloat16)


def autocast_dtype(values: Tensor) -> torch.dtype | None:
    """Return the dtype to which autocast converts a tensor, or None if it does not."""
    kind = values.device.type
    converts = torch.is_autocast_enabled(kind) and values.dtype != torch.double
    return torch.get_autocast_dtype(kind) if converts else None


def has_fused_dtype(layer: nn.Module, x: Tensor, e: Tensor | None) -> bool:
    """Return whether a layer can be fused for states `x` and `e` of these dtypes."""
    weight, asked = next(layer.parameters()).dtype, autocast_dtype(x)
    if asked is None:
        fits = x.dtype == weight and weight in (torch.float, torch.double)
        return fits and (e is None or (e.dim() == 2 and e.dtype == x.dtype))
    states = [x] if e is None else [x, e]
    narrow = all(s.dtype in (torch.float, torch.bfloat16) for s in states)
    fits = asked == torch.bfloat16 and weight == torch.float
    return fits and narrow and (e is None or e.dim() == 2)


def has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


NORMS = (BatchNorm, nn.SyncBatchNorm)
"""Norms that can be fused; both use the rows of all processes in training."""


def is_fusable(norm: nn.Module) -> bool:
    return (
        isinstance(norm, NORMS)
        and type(norm) in NORMS
        and norm.affine
        and norm.track_running_stats
        and norm.momentum is not None
        and getattr(norm, "process_group", None) is None
    )


def can_fuse_norm(norm: nn.Module, x: Tensor) -> bool:
    # All processes must choose the same norms, whatever their numbers of rows.
    several = x.size(0) > 1 or several_processes()
    rows = x.dim() == 2 and several and x.stride(1) == 1
    return rows and is_fusable(norm)


def blocks_of(transform: nn.Module) -> list[Block]:
    blocks = [cast(Any, [*block.children()]) for block in transform.children()]
    return [Block(linear, norm) for linear, norm, _ in blocks]


def two_linears(module: nn.Module) -> TwoLinears | None:
    """Return the parts of an MLP as `TwoLinears`, or None if it cannot be fused."""
    blocks = [*module.children()] if isinstance(module, nn.Sequential) else []
    if len(blocks) != 2 or not isinstance(blocks[0], nn.Sequential):
        return None
    parts: Any = *blocks[0], blocks[1]
    if len(parts) != 4:
        return None
    first, norm, act, second = parts
    if (type(first), type(act), type(second)) != (nn.Linear, nn.ReLU, nn.Linear):
        return None
    fits = first.bias is None and is_fusable(norm)
    return TwoLinears(first, norm, second) if fits else None


TensorFunction = Callable[..., Tensor]


class Recompute(NamedTuple):
    """How to recompute a tensor in the backward pass, instead of saving it."""

    function: TensorFunction
    """Maps `saved` to the tensor; keeps no reference, so the tensor can be freed."""
    saved: tuple[Tensor | None, ...]
    owned: bool = False
    """Whether the caller may overwrite the tensor, since nothing reads it later."""
    uncached: TensorFunction | None = None
    """`function` without a cache, for callers that cache the result; may be None."""


class Rows(NamedTuple):
    """A large matrix, and optionally how to recompute it in the backward pass."""

    values: Tensor
    """[m, c]: the matrix."""
    moments: Moments | None = None
    """Column statistics of `values`; None if they are not known yet."""
    recompute: Recompute | None = None
    """How to recompute `values` in the backward pass. If None, `values` is saved."""


class CachedRecompute:
    """Recomputes a tensor at its first use in a backward pass, and caches the tensor.

    Set `caches` only if a backward pass follows, and call `release` at the last use.
    """

    def __init__(self, function: TensorFunction) -> None:
        self.function, self.caches = function, False
        self._value: Tensor | None = None

    def __call__(self, *saved: Tensor | None) -> Tensor:
        value = self.function(*saved) if self._value is None else self._value
        if self.caches:
            self._value = value
        return value

    def release(self) -> None:
        self._value = None


def to_save(values: Tensor, recompute: Recompute | None) -> tuple[Tensor | None, ...]:
    """Return the tensors to save for backward: `values`, or `recompute.saved`."""
    return (values,) if recompute is None else recompute.saved


def recompute_function(recompute: Recompute | None) -> TensorFunction | None:
    return None if recompute is None else recompute.function


def saved_or_recomputed(
    saved: Sequence[Tensor | None], function: TensorFunction | None
) -> Tensor:
    """Return `function(*saved)` or, if `function` is None, the tensor in `saved`."""
    if function is not None:
        return function(*saved)
    (values,) = saved
    assert values is not None
    return values


def can_overwrite(recompute: Recompute | None) -> bool:
    return recompute is not None and recompute.owned


def with_unit_stride(rows: Tensor) -> Tensor:
    """Return `rows`; if `stride(1)` is not 1, return a copy, since kernels need 1."""
    return rows if rows.stride(1) == 1 else rows.contiguous()


def distinct_rows(e: Tensor | None) -> Tensor | None:
    """Return edge states. If `e` is one expanded row, return only this row, [1, w]."""
    return e if e is None or e.dim() < 2 or e.stride(0) != 0 else e[:1]


def has_many_rows(e: Tensor | None) -> bool:
    return e is not None and e.size(0) != 1


def edges_of(subgraphs: RootedSubgraphs, e: Tensor | None) -> Edges:
    """Return the edge copies as `Edges`, grouped by edge if `e` has several rows."""
    with_edge = has_many_rows(e)

    def find() -> Edges:
        # Layers that need edge copies also need the node copies grouped by node.
        by_node: list[Axis] = ["node"] if subgraphs.num_nodes is not None else []
        by_edge: list[Axis] = ["edge"] if with_edge else []
        subgraphs.group_by([*by_node, "target", "source", *by_edge])
        (source, target), by = subgraphs.edge_index, subgraphs.by
        groups = by("target"), by("source"), by("edge") if with_edge else None
        return Edges(source, target, subgraphs.edge, *groups)

    return subgraphs.once(Edges, find, with_edge, saved=False)


def lift(
    x: Tensor,
    table: Tensor | None,
    rows: Tensor,
    subgraphs: RootedSubgraphs,
    add: bool = False,
    dtype: torch.dtype | None = None,
) -> Rows:
    """Compute `plain.lift`, states of node copies; the backward pass recomputes it.

    If `rows` are coefficients, embeddings are `rows @ table` instead of `table[rows]`.
    """
    node = subgraphs.node

    def gather(x: Tensor, table: Tensor | None) -> Tensor:
        # The forward pass runs `gather` in `_Lift`, where autograd is off, so that this
        # returns the fast kernels. A backward pass with `create_graph=True` needs
        # kernels that autograd can differentiate.
        kernels, index = kernels_of_backward(x), rows
        if table is not None and rows.dim() == 2:
            table = rows @ table.to(rows.dtype)
            index = torch.arange(node.numel(), device=node.device)
        return kernels.lift(x, table, node, index, add, dtype)

    cached = CachedRecompute(gather)
    values = _Lift.apply(x, table, rows, subgraphs.by("node"), cached, add)
    # Only the backward pass of `_Lift` clears the cache, so cache only if it will run.
    cached.caches = values.requires_grad
    return Rows(values, recompute=Recompute(cached, (x, table)))


def gates_or_logits(gate: Tensor | None, rows: Tensor) -> Tensor | None:
    """Return `gate`, a table, or `rows @ gate`, [m, c], if `rows` are coefficients."""
    if gate is None or rows.dim() == 1:
        return gate
    return rows @ gate.to(rows.dtype)


def index_of(rows: Tensor) -> Tensor | None:
    """Return `rows` if they are row numbers, and None if they are coefficients."""
    return rows if rows.dim() == 1 else None


def table_grad(grad: Tensor, rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the gradient of a table from that of `rows @ table`, [m, c]."""
    return (rows.t() @ grad.to(rows.dtype)).to(dtype)


class _Lift(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        rows: Tensor,
        by_node: Groups,
        cached: CachedRecompute,
        add: bool,
    ) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.by_node, ctx.width, ctx.cached = by_node, x.size(1), cached
        ctx.begin = 0 if add else x.size(1)
        ctx.size = None if table is None else table.size(0)
        ctx.dtypes = x.dtype, None if table is None else table.dtype
        return cached.function(x, table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        ctx.cached.release()
        kernels, grad = kernels_of_backward(grad), with_unit_stride(grad)
        of_x, of_table = ctx.dtypes
        grad_x = kernels.sum_by(grad[:, : ctx.width], ctx.by_node, of_x)
        grad_table = None
        if ctx.size is not None:
            tail = grad[:, ctx.begin :]
            if rows.dim() == 2:
                grad_table = table_grad(tail, rows, of_table)
            else:
                grad_table = kernels.table_sum(tail, rows, ctx.size, of_table)
        return grad_x, grad_table, None, None, None, None
