"""The parts of a GNN-AK layer: distance embeddings, gates, and how encodings fuse."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.errors import SubgraphError
from gnnak.nn.copies import lookup, pool_context, to_nodes
from gnnak.nn.mlp import mlp
from gnnak.nn.options import LayerOptions
from gnnak.sampling.estimate import SampledSubgraphs, fill
from gnnak.subgraphs.encodings import StructuralEncoding
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class HopTable(nn.Module):
    r"""Learned embedding $\mathbf{d}_{i|j}$ of the distance from node $i$ to root $j$.

    `weight` has a row for each distance 0, ..., `max_hops`, and one for "no path".
    """

    def __init__(self, max_hops: int, channels: int) -> None:
        super().__init__()
        self.max_hops = max_hops
        self.weight = nn.Parameter(torch.empty(max_hops + 2, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        """Load the weights; add an error message if they are for other distances."""
        super()._load_from_state_dict(state_dict, prefix, *more)
        weight = state_dict.get(f"{prefix}weight")
        if weight is not None and len(weight) != self.max_hops + 2:
            told = f"{prefix.rstrip('.')} has weights for distances up to"
            told += f" {len(weight) - 2}, but this layer is for distances up to"
            more[-1].append(f"{told} {self.max_hops}; build it with the same num_hops.")

    def rows(self, subgraphs: RootedSubgraphs) -> Tensor:
        """Return the row number in `weight` for the distance of each node copy, [m]."""
        return subgraphs.hop_rows(self.max_hops + 2)

    def per_copy(self, table: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        """Return, for each node copy, the row of `table` for its distance, [m, c]."""
        return lookup(table, self.rows(subgraphs))

    def extra_repr(self) -> str:
        return f"max_hops={self.max_hops}, channels={self.weight.size(1)}"


class PairLinears(nn.Module):
    r"""The part $\sum_E W_E E_{ji}$ of $\mathbf{d}_{i|j}$, over structural encodings.

    A layer reads the values $E_{ji}$ from the subgraphs; see `GNNAK.encode_pairs`.
    """

    def __init__(self, encodings: Sequence[StructuralEncoding], channels: int) -> None:
        super().__init__()
        self.encodings = tuple(encodings)
        self.linears = nn.ModuleDict(
            {
                encoding.name: nn.Linear(encoding.channels, channels, bias=False)
                for encoding in encodings
            }
        )

    def forward(self, subgraphs: RootedSubgraphs) -> Tensor:
        """Return the sum of the terms for each node copy, [m, h]."""
        terms = [
            linear(self.rows(encoding, subgraphs, linear.weight))
            for encoding, linear in zip(
                self.encodings, self.linears.values(), strict=True
            )
        ]
        return sum(terms[1:], terms[0])

    @torch.compiler.disable
    def rows(
        self, encoding: StructuralEncoding, subgraphs: RootedSubgraphs, like: Tensor
    ) -> Tensor:
        """Return the values of an encoding as rows with the dtype of `like`."""
        found = subgraphs.derived.encodings.get(encoding)
        if found is None:
            raise SubgraphError(
                f"the layer reads the encoding {encoding.name!r} of pairs, which the "
                "subgraphs do not have; extract them with gnnak.subgraphs."
                f"WithEncodings(extractor, {self.encodings!r})."
            )
        return found.rows.reshape(-1, encoding.channels).to(like.dtype)


class HopGate(nn.Module):
    r"""The gate $\text{Sigmoid}(W d + b)$ of a node copy with the learned encoding $d$.

    Difference from the paper: a Linear ($W$, $b$) maps $d$ to the width of the states.
    """

    def __init__(self, hop_channels: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hop_channels, channels)

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()

    def forward(self, d: Tensor) -> Tensor:
        """Map a hop table, [t, h], or rows of node copies, [m, h], to gates."""
        return torch.sigmoid(self.linear(d))


class ConcatFuse(nn.Module):
    r"""Fuse by concatenation: $W \, \text{Dropout}[h^1 \,\Vert\, \dots \,\Vert\, h^r]$.

    Difference from the paper: the Linear $W$ maps r encodings to the width of a state.
    With `num_layers` > 1, $W$ is an MLP whose hidden layers have the width r c.
    """

    def __init__(
        self, num_encodings: int, channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        widths = [num_encodings * channels] * num_layers
        self.mlp = mlp([*widths, channels], bias=False)

    def forward(self, encodings: Sequence[Tensor]) -> Tensor:
        """Fuse r encodings, each [n, c], into node states, [n, c]."""
        return self.mlp(self.dropout(torch.cat(list(encodings), dim=1)))


class SumFuse(nn.Module):
    r"""Fuse by summation: $h^1 + \dots + h^r$, the sum of a node's r encodings."""

    def forward(self, encodings: Sequence[Tensor]) -> Tensor:
        """Fuse r encodings, each [n, c], into node states, [n, c]."""
        return torch.stack(list(encodings)).sum(dim=0)


def make_fuse(options: LayerOptions, num_encodings: int, channels: int) -> nn.Module:
    """Build the module that fuses the encodings of a node (FUSE in the paper)."""
    if options.fuse == "sum":
        return SumFuse()
    num_layers = max(options.mlp_layers, 1)
    return ConcatFuse(num_encodings, channels, num_layers, options.dropout)


def context_encoding(
    gated: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Pool the gated states of each node over all subgraphs that contain the node.

    With SubgraphDrop, only the subgraphs of sampled roots $\mathcal{S}$ are pooled, and
    a "sum" is divided by the sampled share of the subgraphs with node $v$:

    $$h_v^{\text{Context}} = \frac{|\{j : v \in \text{Sub}[j]\}|}
        {|\{j \in \mathcal{S} : v \in \text{Sub}[j]\}|}
        \sum_{j \in \mathcal{S}:\, v \in \text{Sub}[j]}
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$
    """
    pooled = pool_context(gated, subgraphs, num_nodes, reduce)
    return scaled_to_all(pooled, subgraphs) if reduce == "sum" else pooled


def scaled_to_all(context: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Scale sums over sampled subgraphs, [n, c], to estimate sums over all of them."""
    if not isinstance(subgraphs, SampledSubgraphs):
        return context
    return context * subgraphs.scale(context.dtype)[:, None]


def at_nodes(
    encodings: dict[Encoding, Tensor], subgraphs: RootedSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Turn encodings of subgraphs, [s, c], into encodings of nodes, [n, c].

    With SubgraphDrop, dropped nodes get means over neighbours; see `plan_filling`.
    """
    if not encodings or (
        subgraphs.num_subgraphs == num_nodes
        and not torch.compiler.is_compiling()
        and subgraphs.in_order
    ):
        return encodings
    if isinstance(subgraphs, SampledSubgraphs):
        return fill_dropped(encodings, subgraphs, num_nodes)
    values = torch.cat(list(encodings.values()), dim=1)
    return _split(to_nodes(values, subgraphs, num_nodes), encodings)


@operation
def fill_dropped(
    encodings: dict[Encoding, Tensor], subgraphs: SampledSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Estimate encodings of all nodes, [n, c], from encodings of the sampled roots."""
    values = torch.cat(list(encodings.values()), dim=1)
    return _split(fill(values, subgraphs.filling, num_nodes), encodings)


def _split(values: Tensor, encodings: dict[Encoding, Tensor]) -> dict[Encoding, Tensor]:
    return dict(zip(encodings, values.chunk(len(encodings), dim=1), strict=True))
