"""PPGN (provably powerful graph network): a GNN on the dense matrix of node pairs."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.errors import EdgeAttrError
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm
from gnnak.typing import check_count


@dataclass(frozen=True)
class NodePairs:
    """The pairs of nodes in the same graph, as rows of a matrix of pair states, [p, w].

    A graph with q nodes has q * q consecutive rows: (0, 0), (0, 1), ..., (1, 0) and so
    on. Graphs are sorted by q. No row is padding.
    """

    sizes: list[tuple[int, int]]
    """(q, number of graphs with q nodes), for each q that occurs, ascending."""
    nodes: Tensor
    """[g]: number of nodes of each non-empty graph, ascending."""
    start: Tensor
    """[g]: the row of each non-empty graph's first pair; graphs are sorted by size."""
    first: Tensor
    """[n]: for each node i of the batch, the row of its first pair (i, j)."""
    position: Tensor
    """[n]: index of each node within its graph."""
    size: Tensor
    """[n]: number of nodes of each node's graph."""
    rank: Tensor
    """[n]: position of each node if all nodes are sorted by `first`."""

    @property
    def num_pairs(self) -> int:
        return sum(size * size * count for size, count in self.sizes)

    @property
    def diagonal(self) -> Tensor:
        """The row of the pair (i, i) for each node i, [n]."""
        return self.first + self.position

    def split(self, x: Tensor) -> list[Tensor]:
        """Split `x`, [p, w], by graph size: one view [count, q, q, w] per size q."""
        parts = x.split([size * size * count for size, count in self.sizes])
        return [
            part.view(count, size, size, x.size(1))
            for part, (size, count) in zip(parts, self.sizes, strict=True)
        ]


def find_pairs(batch: Tensor) -> NodePairs:
    """Find the pairs of nodes in each graph, from `batch`, [n]; synchronises once."""
    ordered, order = batch.sort(stable=True)
    graph = torch.zeros_like(batch)
    graph[1:] = (ordered[1:] != ordered[:-1]).cumsum(0)
    counts = counts_of(graph, batch.numel())
    on_host = counts.cpu()
    nodes, by_size = on_host[on_host > 0].sort(stable=True)
    found, repeats = nodes.unique_consecutive(return_counts=True)
    sizes = list(zip(found.tolist(), repeats.tolist(), strict=True))
    # By graph, sorted by size: nodes, first row, and number of nodes before the graph.
    sorted_ = torch.stack([nodes, *(pointers(c)[:-1] for c in (nodes * nodes, nodes))])
    by_graph = torch.empty_like(sorted_)
    by_graph[:, by_size] = sorted_
    both = torch.stack([sorted_, by_graph])
    sorted_, by_graph = both.to(batch.device, non_blocking=True)
    # One column per node, sorted by graph.
    size, start, before = by_graph.index_select(1, graph)
    position = torch.arange(batch.numel(), device=batch.device)
    position -= pointers(counts).index_select(0, graph)
    columns = torch.stack([start + position * size, position, size, before + position])
    of_node = torch.empty_like(columns).index_copy_(1, order, columns)
    return NodePairs(sizes, sorted_[0], sorted_[1], *of_node)


def pair_states(
    x: Tensor, edge_index: Tensor, edge_attr: Tensor, pairs: NodePairs
) -> Tensor:
    """Build pair states, [p, w], with nodes i at (i, i) and edges j -> i at (i, j)."""
    # Entry (i, j) is the edge j -> i, so that entry (i, k) of a matrix product sums
    # over the paths k -> j -> i.
    source, target = edge_index
    edges = pairs.first.index_select(0, target) + pairs.position.index_select(0, source)
    states = x.new_zeros(pairs.num_pairs, x.size(1))
    states.index_add_(0, pairs.diagonal, x)
    return states.index_add_(0, edges, edge_attr.to(x.dtype))


def multiply_pairs(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    r"""Return $P_{ik} = \sum_j L_{ij} R_{jk}$ for each graph and channel, [p, w]."""
    # The first item has no rows; for a batch without nodes, it alone is returned.
    products = [left[:0] * right[:0]]
    for one, two in zip(pairs.split(left), pairs.split(right), strict=True):
        product = one.permute(0, 3, 1, 2) @ two.permute(0, 3, 1, 2)
        products.append(product.permute(0, 2, 3, 1).reshape(-1, left.size(1)))
    return torch.cat(products)


MAX_XAVIER_BLOCKS = 4
"""With more blocks, `PPGN` does not use Xavier initialisation: products of states would
overflow (on graphs of 15 nodes, after six blocks)."""


class PPGN(nn.Module):
    r"""Provably powerful graph network (PPGN), a GNN of matrix products.

    PPGN is as expressive as the 3-dimensional Weisfeiler-Leman test (3-WL). A graph or
    rooted subgraph with q nodes is a tensor $X$ [w, q, q] with the node states on the
    diagonal and the edge states off the diagonal. A block computes

    $$X' = W\,[X,\ \text{MLP}_1(X) \cdot \text{MLP}_2(X)]$$

    with one matrix product per channel. The new state of node $i$ is
    $\text{MLP}(\text{BN}[X_{ii},\ \sum_{j \ne i} X_{ij}])$, where the MLP is a Linear
    $2w \to 2w$, BatchNorm, ReLU and a Linear to the output width.

    The tensors of all graphs are stored in one matrix with a row per pair of nodes,
    without padding; see `NodePairs`.

    Args:
        channels: Width of node and edge states, w.
        num_layers: Number of blocks.
        out_channels: Width of the new node states. If None, it is w.
    """

    synchronises = True
    """A forward pass synchronises, to read the number of nodes of each graph."""

    def __init__(
        self, channels: int, num_layers: int = 2, out_channels: int | None = None
    ) -> None:
        super().__init__()
        self.in_channels = check_count("channels", channels, 1)
        if out_channels is None:
            out_channels = channels
        self.out_channels = check_count("out_channels", out_channels, 1)
        check_count("num_layers", num_layers, least=1)
        xavier = num_layers <= MAX_XAVIER_BLOCKS
        self.blocks = nn.ModuleList(
            PPGNBlock(channels, xavier) for _ in range(num_layers)
        )
        self.norm = BatchNorm(2 * channels)
        self.readout = mlp([2 * channels, 2 * channels, out_channels])

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, out_channels].

        Args:
            x: Node states, [n, w].
            edge_index: Directed edges, [2, e]. The states of duplicate edges are
                summed; the state of a self loop is added to the state of its node.
            edge_attr: Edge states, [e, w]. If None, all edge states are ones.
            batch: Index of the graph that each node is in, [n]. If None, all nodes are
                in one graph.
        """
        if batch is None:
            batch = x.new_zeros(x.size(0), dtype=torch.long)
        return self.on_pairs(x, edge_index, edge_attr, find_pairs(batch))

    def on_pairs(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, pairs: NodePairs
    ) -> Tensor:
        """Compute what `forward` returns, given `pairs = find_pairs(batch)`."""
        if edge_attr is None:
            edge_attr = x.new_ones(edge_index.size(1), x.size(1))
        elif edge_attr.shape != (edge_index.size(1), x.size(1)):
            raise EdgeAttrError(
                f"edge_attr has shape {list(edge_attr.shape)}; give a PPGN edge states "
                f"as wide as node states, [{edge_index.size(1)}, {x.size(1)}]."
            )
        states = pair_states(x, edge_index, edge_attr, pairs)
        *blocks, last = self.blocks
        for block in blocks:
            states = block(states, pairs)
        assert isinstance(last, PPGNBlock)
        return self.readout(self.norm(last.pool_block(states, pairs).to(x.dtype)))


class PPGNBlock(nn.Module):
    """One block of `PPGN`: matrix products of the states of node pairs, per channel.

    `xavier` selects Xavier initialisation. With PyTorch's default initialisation, the
    products can be so small that float32 rounds away differences between graphs.
    """

    def __init__(self, channels: int, xavier: bool = True) -> None:
        super().__init__()
        self.left, self.right = (
            nn.Sequential(
                nn.Linear(channels, channels),
                nn.ReLU(),
                nn.Linear(channels, channels),
                nn.ReLU(),
            )
            for _ in range(2)
        )
        self.mix = nn.Linear(2 * channels, channels)
        for layer in self.modules():
            if xavier and isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, pairs: NodePairs) -> Tensor:
        """Compute new states of node pairs, [p, w]."""
        return self.update_pairs(x, pairs)

    @operation
    def update_pairs(self, x: Tensor, pairs: NodePairs) -> Tensor:
        """Compute new states of node pairs, in a method that a backend can replace."""
        product = multiply_pairs(self.left(x), self.right(x), pairs)
        return self.mix(torch.cat([x, product.to(x.dtype)], dim=1))

    @operation
    def pool_block(self, x: Tensor, pairs: NodePairs) -> Tensor:
        """Run the block, then pool the states of node pairs to nodes, [n, 2w]."""
        return pool_pairs(self(x, pairs), pairs)


def pool_pairs(x: Tensor, pairs: NodePairs) -> Tensor:
    r"""Pool pair states to nodes $i$: $[X_{ii},\ \sum_{j \ne i} X_{ij}]$, [n, 2w]."""
    diagonal = x.index_select(0, pairs.diagonal)
    sums = [part.sum(dim=2).flatten(0, 1) for part in pairs.split(x)]
    others = torch.cat([x[:0], *sums]).index_select(0, pairs.rank) - diagonal
    return torch.cat([diagonal, others], dim=1)
