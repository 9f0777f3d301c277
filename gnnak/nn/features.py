"""From raw node and edge features to states, sized from the data."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnnak.errors import OptionError, WidthError
from gnnak.nn.mlp import dense_block


@dataclass(frozen=True)
class Categorical:
    """Whole numbers, one column a feature: column i lies in 0..sizes[i]-1."""

    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Continuous:
    """Real numbers, `channels` columns of them."""

    channels: int


Features = Categorical | Continuous


def describe(values: Tensor | None) -> Features | None:
    """What kind of features these are; whole numbers are categories.

    >>> describe(torch.tensor([[0, 3], [2, 1]]))
    Categorical(sizes=(3, 4))
    >>> describe(torch.rand(5, 7))
    Continuous(channels=7)
    >>> describe(None)
    """
    if values is None:
        return None
    values = values[:, None] if values.dim() == 1 else values
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


def make_encoder(features: Features | None, channels: int) -> nn.Module:
    """The encoder for features of this kind; a learned constant where there are none.

    All encoders are called as `encoder(values, num_rows)` and give [num_rows, c].
    """
    if features is None:
        return ConstantEncoder(channels)
    if isinstance(features, Categorical):
        return CategoricalEncoder(features.sizes, channels)
    return ContinuousEncoder(features.channels, channels)


class ConstantEncoder(nn.Module):
    """One learned vector for every row.

    Args:
        channels: Width of the states.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, channels))

    def forward(self, values: Tensor | None, num_rows: int) -> Tensor:
        """States of `num_rows` rows; there are no values to read."""
        if values is not None:
            raise WidthError(
                f"features of shape {list(values.shape)} came in, but this model was "
                "built for none; build it for features of this kind, or pass None."
            )
        return self.weight.expand(num_rows, -1)


class CategoricalEncoder(nn.Module):
    """One embedding table per column, summed.

    Args:
        sizes: Number of categories of each column.
        channels: Width of the states.
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
        """States [num_rows, c] of categories [num_rows] or [num_rows, columns]."""
        columns = self.limit.numel()
        if values is not None and values.dim() == 1:
            values = values[:, None]
        if values is None or values.is_floating_point() or values.size(1) != columns:
            got = "None" if values is None else f"{values.dtype} {list(values.shape)}"
            raise WidthError(
                f"categorical features are {got}; give whole numbers of shape "
                f"[{num_rows}, {columns}]."
            )
        if not values.is_cuda and bool(((values < 0) | (values >= self.limit)).any()):
            raise WidthError(
                f"a category lies outside of the {self.limit.tolist()} categories this "
                "model was built for (column by column); build it for this data."
            )
        return self.tables(values.long() + self.first).sum(dim=1)


class ContinuousEncoder(nn.Module):
    """Linear without bias, BatchNorm, ReLU.

    Args:
        in_channels: Number of columns.
        channels: Width of the states.
    """

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.block = dense_block(in_channels, channels)

    def forward(self, values: Tensor | None, num_rows: int) -> Tensor:
        """States [num_rows, c] of values [num_rows, columns]."""
        if values is not None and values.dim() == 1:
            values = values[:, None]
        if values is None or values.size(1) != self.in_channels:
            got = "None" if values is None else f"of shape {list(values.shape)}"
            raise WidthError(
                f"continuous features are {got}; give [{num_rows}, {self.in_channels}]."
            )
        return self.block(values.to(next(self.block.parameters()).dtype))
