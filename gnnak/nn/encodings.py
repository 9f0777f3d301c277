"""The three encodings of the paper, their gates, and FUSE: one equation each."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.nn.copies import at_centroid, pool_context, pool_subgraph, to_nodes
from gnnak.nn.mlp import mlp
from gnnak.nn.options import LayerOptions
from gnnak.nn.segment import lookup
from gnnak.sampling.estimate import SampledSubgraphs, fill
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class HopTable(nn.Module):
    r"""Learned embedding $\mathbf{d}_{i|j}$ of the distance from node $i$ to root $j$.

    `weight` has one row for each distance 0, ..., `max_hops`, and one more row for
    nodes without a path to the root within the subgraph.

    Args:
        max_hops: Largest distance in the table.
        channels: Width of a row, h.
    """

    def __init__(self, max_hops: int, channels: int) -> None:
        super().__init__()
        self.max_hops = max_hops
        self.weight = nn.Parameter(torch.empty(max_hops + 2, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new embeddings from the standard normal distribution."""
        nn.init.normal_(self.weight)

    def rows(self, subgraphs: RootedSubgraphs) -> Tensor:
        """Return which row of `weight` belongs to each node of each rooted subgraph.

        Returns:
            The row, that is, the distance to the root, for each of the m pairs of a
            subgraph and a node in it, [m]. It is the last row, `max_hops + 1`, for a
            node without a path to the root.
        """
        return subgraphs.hop_rows(self.max_hops + 2)

    def per_copy(self, table: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        """Look up the table row for each node's distance to the root of its subgraph.

        Args:
            table: One row per row of `weight`, [max_hops + 2, c]: either `weight`
                itself, or values computed from each of its rows, such as gates.
            subgraphs: The rooted subgraphs.

        Returns:
            One row for each of the m pairs of a subgraph and a node in it, [m, c].
        """
        return lookup(table, self.rows(subgraphs))

    def extra_repr(self) -> str:
        """Return `max_hops` and the width of the embeddings, as text for `repr`."""
        return f"max_hops={self.max_hops}, channels={self.weight.size(1)}"


class HopGate(nn.Module):
    r"""The gate $\text{Sigmoid}(W \mathbf{d}_{i|j} + b)$: learned factors in 0..1.

    Here $\mathbf{d}_{i|j}$ is the learned embedding of the distance from node $i$ to
    root $j$. A layer multiplies the state of node $i$ in the subgraph rooted at $j$ by
    this gate.

    Difference from the paper: the paper applies the sigmoid to $\mathbf{d}$ itself,
    which must then be as wide as the states. Here, a Linear maps $\mathbf{d}$ to the
    width of the states, so $\mathbf{d}$ may have another width.

    Args:
        hop_channels: Width of the distance embeddings, h.
        channels: Width of the states that are multiplied by the gate, c.
    """

    def __init__(self, hop_channels: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hop_channels, channels)

    def reset_parameters(self) -> None:
        """Initialise the weights of the Linear."""
        self.linear.reset_parameters()

    def forward(self, table: Tensor) -> Tensor:
        """Compute the gate of every distance.

        Args:
            table: The distance embeddings, `HopTable.weight`, [max_hops + 2, h].

        Returns:
            Factors in 0..1 for the c channels of the states, [max_hops + 2, c].
        """
        return torch.sigmoid(self.linear(table))


def make_gates(
    names: Iterable[Encoding], hop_channels: int, channels: int
) -> nn.ModuleDict:
    """Build one `HopGate` for each of the named encodings.

    Args:
        names: Names of the encodings whose states are multiplied by a gate.
        hop_channels: Width of the distance embeddings. If it is 0, the layer uses no
            distances, and no gates are built.
        channels: Width of the states that are multiplied by a gate.
    """
    if not hop_channels:
        return nn.ModuleDict()
    return nn.ModuleDict({name: HopGate(hop_channels, channels) for name in names})


def centroid_encoding(gated: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""Return the centroid encoding: the state of each root in its own subgraph.

    $$h_v^{\text{Centroid}} = \text{Emb}(v \mid \text{Sub}[v])$$

    Args:
        gated: One row for each pair of a subgraph and a node in it, [m, c]: the node's
            state in that subgraph, multiplied by the gate if there is one.
        subgraphs: The rooted subgraphs.

    Returns:
        One row for each of the s subgraphs, [s, c].
    """
    return at_centroid(gated, subgraphs)


def subgraph_encoding(
    gated: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce
) -> Tensor:
    r"""Return the subgraph encoding: the node states of each subgraph, pooled.

    $$h_v^{\text{Subgraph}} = \text{POOL}_{i \in \text{Sub}[v]}\,
        \text{Sigmoid}(\mathbf{d}_{i|v}) \odot \text{Emb}(i \mid \text{Sub}[v])$$

    Here $\text{Emb}(i \mid \text{Sub}[v])$ is the state that the base GNN computes for
    node $i$ in the subgraph rooted at $v$, and $\text{Sigmoid}(\mathbf{d}_{i|v})$ is a
    learned gate (factors in 0..1) that depends on the distance from $i$ to $v$.

    Args:
        gated: One row for each pair of a subgraph and a node in it, [m, c]: the node's
            state in that subgraph, multiplied by the gate if there is one.
        subgraphs: The rooted subgraphs.
        reduce: What POOL is, "sum" or "mean".

    Returns:
        One row for each of the s subgraphs, [s, c].
    """
    return pool_subgraph(gated, subgraphs, reduce)


def context_encoding(
    gated: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Return the context encoding: the states of each node in all subgraphs, pooled.

    $$h_v^{\text{Context}} = \text{POOL}_{j:\, v \in \text{Sub}[j]}\,
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    Here $\text{Emb}(v \mid \text{Sub}[j])$ is the state that the base GNN computes for
    node $v$ in the subgraph rooted at $j$, and $\text{Sigmoid}(\mathbf{d}_{v|j})$ is a
    learned gate (factors in 0..1) that depends on the distance from $v$ to $j$.

    With SubgraphDrop, only the subgraphs of a sampled set $\mathcal{S}$ of roots are
    encoded. A mean is then taken over these subgraphs. A sum over these subgraphs is
    scaled, to estimate the sum over all subgraphs that contain $v$:

    $$h_v^{\text{Context}} = \frac{|\{j : v \in \text{Sub}[j]\}|}
        {|\{j \in \mathcal{S} : v \in \text{Sub}[j]\}|}
        \sum_{j \in \mathcal{S}:\, v \in \text{Sub}[j]}
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    Args:
        gated: One row for each pair of a subgraph and a node in it, [m, c]: the node's
            state in that subgraph, multiplied by the gate if there is one.
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.
        reduce: What POOL is, "sum" or "mean".

    Returns:
        One row per node, [n, c].
    """
    pooled = pool_context(gated, subgraphs, num_nodes, reduce)
    return scaled_to_all(pooled, subgraphs) if reduce == "sum" else pooled


def scaled_to_all(context: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Scale context encodings that were summed over a sample of the subgraphs.

    The result estimates the sum over all subgraphs that contain a node.

    Args:
        context: For each node, the sum over the sampled subgraphs that contain the
            node, [n, c].
        subgraphs: The subgraphs, sampled by SubgraphDrop or not.

    Returns:
        The scaled sums, [n, c]; `context` itself if the subgraphs are not a sample.
    """
    if not isinstance(subgraphs, SampledSubgraphs):
        return context
    return context * subgraphs.scale(context.dtype)[:, None]


def at_nodes(
    encodings: dict[Encoding, Tensor], subgraphs: RootedSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Turn encodings of rooted subgraphs, [s, c], into encodings of nodes, [n, c].

    The encoding of a subgraph becomes the encoding of its root. If SubgraphDrop has
    dropped the subgraph of a node, the node gets the mean encoding of those neighbours
    that are nearer to a sampled root; see `plan_filling`.

    Args:
        encodings: Encodings of the subgraphs, [s, c], by name.
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.

    Returns:
        Encodings of the nodes, [n, c], by name.
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
    """Estimate the encodings of all nodes from those of the sampled roots.

    Args:
        encodings: Encodings of the subgraphs that SubgraphDrop has sampled, [s, c], by
            name.
        subgraphs: The sampled subgraphs. The field `filling` says how to average the
            encodings of sampled roots to estimate those of dropped roots.
        num_nodes: Number of nodes, n.

    Returns:
        Encodings of the nodes, [n, c], by name.
    """
    values = torch.cat(list(encodings.values()), dim=1)
    return _split(fill(values, subgraphs.filling, num_nodes), encodings)


def _split(values: Tensor, encodings: dict[Encoding, Tensor]) -> dict[Encoding, Tensor]:
    """Split concatenated encodings into a dict with the keys of `encodings`."""
    return dict(zip(encodings, values.chunk(len(encodings), dim=1), strict=True))


class ConcatFuse(nn.Module):
    r"""Fuse by concatenation: $W \, \text{Dropout}[h^1 \,\Vert\, \dots \,\Vert\, h^r]$.

    $h^1, \dots, h^r$ are the encodings of node $v$ that the layer uses: all or some of
    $h_v^{\text{Centroid}}$, $h_v^{\text{Subgraph}}$ and $h_v^{\text{Context}}$.

    Difference from the paper: the Linear $W$ maps the concatenation to the width of a
    node state. With `num_layers` > 1, an MLP with BatchNorm and ReLU replaces $W$; its
    hidden layers are as wide as the concatenation, r c.

    Args:
        num_encodings: Number of encodings, r.
        channels: Width of each encoding and of the result, c.
        num_layers: Number of layers of the MLP; 1 = the Linear $W$ alone.
        dropout: Dropout probability for the concatenated encodings.
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
    """Build the module that fuses the encodings of a node, FUSE in the paper.

    Args:
        options: Options of the GNN-AK layer. `fuse` selects sum or concatenation.
        num_encodings: Number of encodings that are fused.
        channels: Width of each encoding and of the result.
    """
    if options.fuse == "sum":
        return SumFuse()
    num_layers = max(options.mlp_layers, 1)
    return ConcatFuse(num_encodings, channels, num_layers, options.dropout)
