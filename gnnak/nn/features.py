"""Encode raw node and edge features as states with a given number of channels."""

import math
import warnings
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor, nn

from gnnak.errors import OptionError, WidthError
from gnnak.nn.copies import lookup
from gnnak.nn.mlp import dense_block
from gnnak.nn.norm import RowAxis
from gnnak.typing import check_count


def is_finite(*tensors: Tensor | None) -> bool:
    """Return whether all values are finite; synchronises with a GPU."""
    checked = [values.detach() for values in tensors if _can_check(values)]
    if not checked:
        return True
    # A sum is faster than a test of every number. A finite sum means that all numbers
    # are finite. If the sum is not finite, it may have overflowed: test every number.
    total = checked[0].sum()
    for values in checked[1:]:
        total = total + values.sum().to(total.device)
    if math.isfinite(total.item()):
        return True
    return all(bool(values.isfinite().all()) for values in checked)


def _can_check(values: Tensor | None) -> TypeGuard[Tensor]:
    if values is None or not values.is_floating_point() or values.is_meta:
        return False
    return not (values.is_cuda and torch.cuda.is_current_stream_capturing())


def warn_not_finite(name: str, values: Tensor) -> None:
    """Warn that `values` has NaN or infinite entries, and show the first one."""
    wrong = (~values.detach().isfinite()).nonzero()
    first = wrong[0].tolist()
    warnings.warn(
        f"{name} has {len(wrong)} values that are NaN or infinite, the first at index "
        f"{first}: {float(values[tuple(first)])}; every output that depends on them "
        "becomes NaN or infinite too, so replace them first. Warned once per model.",
        stacklevel=3,
    )


@dataclass(frozen=True)
class Categorical:
    """Description of categorical features: integers, with one column per feature."""

    sizes: tuple[int, ...]
    """Number of categories of each column; column i has values in 0..sizes[i]-1."""

    def __post_init__(self) -> None:
        if not self.sizes:
            raise OptionError("categorical features have no column; give at least one.")
        for size in self.sizes:
            check_count("the number of categories of a column", size, least=1)


@dataclass(frozen=True)
class Continuous:
    """Description of continuous features: real numbers, with one column per feature."""

    channels: int
    """Number of columns of the features."""

    def __post_init__(self) -> None:
        check_count("the number of continuous features", self.channels, least=1)


Features = Categorical | Continuous
"""Description of node or edge features, from which `make_encoder` builds an encoder."""


def describe(values: Tensor | None) -> Features | None:
    """Return the description of features that `make_encoder` needs.

    Integers are taken as categories, floating-point numbers as continuous features.

    Args:
        values: Features of all nodes, or of all edges, of a data set, [rows, c] or
            [rows]; None if the data set has no such features.

    Returns:
        The description, or None if `values` is None.

    >>> describe(torch.tensor([[0, 3], [2, 1]]))
    Categorical(sizes=(3, 4))
    >>> describe(torch.rand(5, 7))
    Continuous(channels=7)
    >>> describe(None)
    """
    if values is None:
        return None
    values = values[:, None] if values.dim() == 1 else values
    if values.dim() != 2 or values.is_complex():
        raise OptionError(
            f"features are {_shown(values)}; give real or whole numbers [rows, c]."
        )
    if values.is_floating_point():
        return Continuous(values.size(1))
    if not values.numel():
        return Categorical((1,) * values.size(1))
    if values.min() < 0:
        raise OptionError(
            f"a categorical feature is {int(values.min())}; number the categories "
            "from 0, or convert to float for continuous features."
        )
    return Categorical(tuple((values.amax(dim=0) + 1).tolist()))


def make_encoder(
    features: Features | None, channels: int, rows: RowAxis = "nodes"
) -> nn.Module:
    """Build a module that encodes node or edge features as states.

    Call the module as `encoder(values, num_rows)`; it returns states, [num_rows, c].

    Args:
        features: Description of the features, as returned by `describe`. If None, the
            data has no features, and all rows get the same learned vector.
        channels: Width of the states, c.
        rows: Whether the features belong to nodes or to edges.
    """
    if features is None:
        return ConstantEncoder(channels)
    if isinstance(features, Categorical):
        return CategoricalEncoder(features.sizes, channels)
    return ContinuousEncoder(features.channels, channels, rows)


class ConstantEncoder(nn.Module):
    """Encoder for data without features: all rows get the same learned vector."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, channels))

    def forward(self, values: Tensor | None, num_rows: int) -> Tensor:
        """Return the learned vector, repeated, [num_rows, c]; `values` must be None."""
        if values is not None:
            raise WidthError(
                f"got features of shape {list(values.shape)}, but this model was built "
                "for none; build it for features of this kind, or pass None."
            )
        return self.weight.expand(num_rows, -1)


class CategoricalEncoder(nn.Module):
    """Encode categorical features as the sum of one learned embedding per column.

    All columns share one table; column i has `limit[i]` rows, starting at `first[i]`.
    """

    first: Tensor
    limit: Tensor

    def __init__(self, sizes: tuple[int, ...], channels: int) -> None:
        super().__init__()
        self.tables = nn.Embedding(sum(sizes), channels)
        limit = torch.tensor(sizes)
        self.register_buffer("limit", limit, persistent=False)
        self.register_buffer("first", limit.cumsum(0) - limit, persistent=False)

    def forward(self, values: Tensor | None, num_rows: int) -> Tensor:
        """Encode categories, [rows, columns] or [rows], as states, [rows, c]."""
        shape = (num_rows, self.limit.numel())
        values = _as_columns(values)
        if values is None or values.shape != shape or values.is_floating_point():
            raise WidthError(
                f"categorical features are {_shown(values)}; give whole numbers of "
                f"shape {list(shape)}."
            )
        self._check_range(values)
        if values.size(1) == 1:
            return lookup(self.tables.weight, values.long().flatten())
        index = (values.long() + self.first).flatten()
        rows = lookup(self.tables.weight, index)
        return rows.view(*shape, rows.size(1)).sum(dim=1)

    def _check_range(self, values: Tensor) -> None:
        if values.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        inside = ((values >= 0) & (values < self.limit)).all()
        if values.is_cuda or torch.compiler.is_compiling():
            # An assertion on the device does not synchronise.
            torch._assert_async(inside, "a category lies outside of its table")
        elif not inside:
            raise WidthError(
                f"a category lies outside of the {self.limit.tolist()} categories this "
                "model was built for (column by column); build it for this data."
            )


class ContinuousEncoder(nn.Module):
    """Encode continuous features by Linear without bias, BatchNorm and ReLU."""

    warned = False
    """Whether this encoder has warned of features that are NaN or infinite."""

    def __init__(
        self, in_channels: int, channels: int, rows: RowAxis = "nodes"
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.rows = rows
        self.block = dense_block(in_channels, channels, rows)

    def forward(self, values: Tensor | None, num_rows: int) -> Tensor:
        """Encode features, [rows, columns] or [rows], as states, [rows, c]."""
        shape = (num_rows, self.in_channels)
        values = _as_columns(values)
        if values is None or values.shape != shape or values.is_complex():
            raise WidthError(
                f"continuous features are {_shown(values)}; give real numbers of shape "
                f"{list(shape)}."
            )
        checked = self.warned or values.is_cuda or torch.compiler.is_compiling()
        if not checked and not is_finite(values):
            self.warned = True
            warn_not_finite(f"the feature matrix of the {self.rows}", values)
        return self.block(values.to(next(self.block.parameters()).dtype))


def _as_columns(values: Tensor | None) -> Tensor | None:
    return values[:, None] if values is not None and values.dim() == 1 else values


def _shown(values: Tensor | None) -> str:
    return "None" if values is None else f"{values.dtype} {list(values.shape)}"
