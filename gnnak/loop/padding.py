"""Run any model on a padded batch so that padding does not change the result."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from gnnak.errors import GraphError, counted
from gnnak.loading.forms import is_structure
from gnnak.loading.items import Item
from gnnak.loop.changes import is_inexact
from gnnak.nn.copies import embed_rows
from gnnak.nn.norm import norm_real_rows, sync_norm

if TYPE_CHECKING:
    from torch_geometric.data import Batch

DISTURBANCE = 100.0
"""Standard deviation of the random numbers that `disturbed` writes to padding rows."""


def padded_rows(item: Item) -> dict[int, tuple[str, int]]:
    """Map the padded size of each axis to (name of the axis, number of real rows)."""
    assert item.sizes is not None
    return {
        getattr(item.shape, axis): (axis, rows)
        for axis, rows in item.sizes.items()
        if axis != "fillings"
    }


def axes_of(plain: Any, padded: Any, item: Item) -> list[str | None]:
    """Return each output's axis, such as "nodes", or None if it has no padding rows."""
    rows = padded_rows(item)
    leaves, others = tree_leaves(plain), tree_leaves(padded)
    if len(leaves) != len(others):
        raise GraphError("padding changes the number of outputs")
    axes: list[str | None] = []
    for leaf, other in zip(leaves, others, strict=True):
        count, more = _num_rows(leaf), _num_rows(other)
        axis, real = rows.get(more, (None, -1))
        if count != more and count != real:
            raise GraphError(
                f"an output has {counted(count, 'row')}, and with padding {more}, "
                "which are neither graphs, nodes nor edges"
            )
        axes.append(None if count == more else axis)
    return axes


def _num_rows(value: Any) -> int:
    return value.size(0) if isinstance(value, Tensor) and value.dim() else -1


def real_rows_of(outputs: Any, item: Item, axes: Sequence[str | None]) -> Any:
    """Remove the padding rows from a model's outputs; `axes` is from `axes_of`."""
    assert item.sizes is not None
    leaves, form = tree_flatten(outputs)
    if len(leaves) != len(axes):
        raise GraphError(
            f"the model returned {counted(len(leaves), 'value')}, but "
            f"{len(axes)} on an earlier batch; return the same values for all batches."
        )
    found = [
        leaf if axis is None else leaf.narrow(0, 0, item.sizes[axis])
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    return tree_unflatten(found, form)


def disturbed(value: Any, rows: dict[int, tuple[str, int]]) -> Any:
    """Copy a tensor; fill padding rows with random numbers and copies of real rows."""
    found = rows.get(_num_rows(value))
    if found is None or not is_inexact(value):
        return value
    real = value[: found[1]]
    noise = DISTURBANCE * torch.randn_like(value[found[1] :])
    if len(real):
        copies = noise[1::2]
        chosen = torch.randint(len(real), (len(copies),), device=value.device)
        copies.copy_(real[chosen])
    return torch.cat([real, noise])


def _is_plain_lookup(*args: Any, **options: Any) -> bool:
    return len(args) >= 2 and not any(
        option is not None and option is not False
        for option in (*args[2:4], *args[5:], *options.values())
    )


def _is_index(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.long and value.dim() == 1


class IgnorePadding(TorchFunctionMode):
    """Context manager: run a model on a padded batch so that it ignores padding.

    BatchNorms in training ignore padding rows. Indices that the model computes in
    padding rows are clamped to the size of the indexed table. `batch.batch.max()`, by
    which models count graphs, does not synchronise. With `disturb`, the outputs of
    Linears, embeddings and BatchNorms get other values in padding rows, to find
    operations that mix padding with real rows.
    """

    def __init__(self, item: Item, disturb: bool = False) -> None:
        super().__init__()
        self.item, self.rows, self.disturb = item, padded_rows(item), disturb
        fields = (item.batch.x, item.batch.edge_attr, *item.extra.values())
        self._fields = {f.data_ptr() for f in fields if isinstance(f, Tensor)}

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.embedding and len(args) >= 2:
            index = self._valid_index(args[0], args[1].size(0))
            args = (index, *args[1:])
        elif func is F.one_hot and len(args) == 2:
            args = (self._valid_index(*args), args[1])
        elif func is Tensor.__getitem__ and _is_index(args[1]) and args[0].dim():
            args = (args[0], self._valid_index(args[1], args[0].size(0)))
        found = self._call(func, args, kwargs)
        if self.disturb and func in (F.linear, F.embedding, F.batch_norm):
            return disturbed(found, self.rows)
        return found

    def _call(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        if func is F.batch_norm:
            return self.batch_norm(*args, **kwargs)
        if func is sync_norm:
            norm, x = args
            return sync_norm(norm, x, self._count(x))
        if func is F.embedding and _is_plain_lookup(*args, **kwargs):
            index, table = args[:2]
            return embed_rows(table, index)
        if func in (Tensor.max, torch.max) and len(args) == 1 and not kwargs:
            given = self.item.batch
            if args[0] is given.batch:
                return torch.tensor(given.num_graphs - 1, device="cpu")
        return func(*args, **kwargs)

    def _valid_index(self, index: Tensor, size: int) -> Tensor:
        """Clamp the padding rows of `index` to 0..size-1, the indices of a table."""
        found = self.rows.get(index.size(0)) if index.dim() else None
        if found is None or size < 1 or index.data_ptr() in self._fields:
            return index
        # Compare with the counts on the device: a replay has other numbers of rows than
        # the capture.
        row = torch.arange(index.size(0), device=index.device)
        is_real = row < self._real_rows(found[0])
        is_real = is_real.view(-1, *[1] * (index.dim() - 1))
        return torch.where(is_real, index, index.clamp(0, size - 1))

    def _real_rows(self, axis: str) -> Tensor:
        assert self.item.batch.real is not None
        return getattr(self.item.batch.real, axis)

    def batch_norm(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        """Normalise the real rows of `x`; arguments as in PyTorch's `batch_norm`."""
        given = running_mean, running_var, weight, bias
        if not training:
            return F.batch_norm(x, *given, False, momentum, eps)
        return norm_real_rows(x, self._count(x), *given, momentum, eps)

    def _count(self, x: Tensor) -> Tensor:
        """Return the number of real rows of a BatchNorm's input."""
        if x.dim() != 2 or x.size(0) not in self.rows:
            raise GraphError(
                f"a BatchNorm gets an input of shape {list(x.shape)}, whose rows are "
                "neither graphs, nodes nor edges"
            )
        return self._real_rows(self.rows[x.size(0)][0])


def changed(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """Copy a batch; apply `change` to all tensors except those of `is_structure`."""
    found = copy.copy(batch)
    for name, value in batch._store.items():
        if isinstance(value, Tensor) and not is_structure(name, value):
            found[name] = change(value)
    return found
