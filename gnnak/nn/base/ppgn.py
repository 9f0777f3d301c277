"""PPGN (provably powerful graph network): a GNN on the dense matrix of node pairs."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gnnak.errors import EdgeAttrError
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.nn.norm import BatchNorm
from gnnak.typing import check_count

BUCKET_GROWTH = 1.2
"""Largest ratio of the sizes of two graphs that are padded to the same size."""


class PPGN(nn.Module):
    r"""Provably powerful graph network (PPGN), a GNN of matrix products.

    PPGN is as expressive as the 3-dimensional Weisfeiler-Leman test (3-WL). A graph or
    rooted subgraph with n nodes is a tensor $X$ [w, n, n] with the node states on the
    diagonal and the edge states off the diagonal. A block computes

    $$X' = W\,[X,\ \text{MLP}_1(X) \cdot \text{MLP}_2(X)]$$

    with one matrix product per channel. The new state of node $i$ is
    $\text{MLP}(\text{BN}[X_{ii},\ \sum_{j \ne i} X_{ij}])$.

    Graphs of similar size are padded to one size and multiplied in one batch. Padding
    does not change the results.

    Args:
        channels: Width of node and edge states, w.
        num_layers: Number of blocks.
    """

    synchronises = True
    """The host waits for the number of nodes of each graph."""

    def __init__(self, channels: int, num_layers: int = 2) -> None:
        super().__init__()
        self.in_channels = self.out_channels = check_count("channels", channels, 1)
        check_count("num_layers", num_layers, least=1)
        self.blocks = nn.ModuleList(PPGNBlock(channels) for _ in range(num_layers))
        self.norm = BatchNorm(2 * channels)
        self.readout = nn.Sequential(
            nn.Linear(2 * channels, channels), nn.ReLU(), nn.Linear(channels, channels)
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, w].

        Args:
            x: Node states, [n, w].
            edge_index: Directed edges, [2, e]. The states of duplicate edges are
                summed; the state of a self loop is added to the state of its node.
            edge_attr: Edge states, [e, w]; None = all ones.
            batch: Index of the graph that each node is in, [n]; None = all nodes are in
                one graph.
        """
        if edge_attr is None:
            edge_attr = x.new_ones(edge_index.size(1), x.size(1))
        elif edge_attr.shape != (edge_index.size(1), x.size(1)):
            raise EdgeAttrError(
                f"edge_attr has shape {list(edge_attr.shape)}; give a PPGN edge states "
                f"as wide as node states, [{edge_index.size(1)}, {x.size(1)}]."
            )
        if batch is None:
            batch = x.new_zeros(x.size(0), dtype=torch.long)
        pairs = x.new_zeros(x.size(0), 2 * x.size(1))
        for nodes, graph, position, size in _buckets(batch):
            dense = _to_dense(x, edge_index, edge_attr, nodes, graph, position, size)
            mask = _real_pairs(graph, position, size)
            for block in self.blocks:
                dense = block(dense, mask)
            diagonal = dense[graph, position, position]
            others = dense.sum(dim=2)[graph, position] - diagonal
            states = torch.cat([diagonal, others], dim=1)
            pairs = pairs.index_copy(0, nodes, states.to(pairs.dtype))
        return self.readout(self.norm(pairs))


class PPGNBlock(nn.Module):
    """One block of `PPGN`: a matrix product per channel of the states of node pairs.

    Weights are initialised by `torch.nn.init.xavier_uniform_`, biases with zero. With
    PyTorch's default initialisation, which has smaller weights and random biases, the
    products hardly change the states. In float32, differences between graphs that only
    show after several blocks are then smaller than rounding errors, and cannot be
    learned.

    Args:
        channels: Width of the states of node pairs, w.
    """

    def __init__(self, channels: int) -> None:
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
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, pairs: Tensor, mask: Tensor) -> Tensor:
        """Compute new states of node pairs, [b, n, n, w].

        Args:
            pairs: States of node pairs of b graphs padded to n nodes, [b, n, n, w].
            mask: True for pairs of nodes, False for padding, [b, n, n, 1].
        """
        left = (self.left(pairs) * mask).permute(0, 3, 1, 2)
        right = (self.right(pairs) * mask).permute(0, 3, 1, 2)
        product = (left @ right).permute(0, 2, 3, 1)
        return self.mix(torch.cat([pairs, product.to(pairs.dtype)], dim=3)) * mask


def _buckets(batch: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, int]]:
    """Split the graphs of a batch into buckets: groups of graphs of similar size.

    Args:
        batch: Index of the graph that each node is in, [n].

    Yields:
        For each bucket: the indices of its nodes, the index of each node's graph within
        the bucket, the index of each node within its graph, and the size to pad to.
    """
    if not batch.numel():
        return
    sizes = counts_of(batch, int(batch.max()) + 1)
    order = torch.argsort(batch, stable=True)
    position = torch.empty_like(batch)
    position[order] = torch.arange(batch.numel(), device=batch.device)
    position -= pointers(sizes).index_select(0, batch)
    for low, high in _size_ranges(sizes):
        inside = (sizes >= low) & (sizes <= high)
        rank = torch.cumsum(inside, 0) - 1
        nodes = inside.index_select(0, batch).nonzero().flatten()
        yield nodes, rank[batch[nodes]], position[nodes], high


def _size_ranges(sizes: Tensor) -> list[tuple[int, int]]:
    """Group similar graph sizes; return the smallest and largest size of each group."""
    ranges: list[tuple[int, int]] = []
    for size in sizes[sizes > 0].unique().tolist():
        if ranges and size <= ranges[-1][0] * BUCKET_GROWTH:
            ranges[-1] = (ranges[-1][0], size)
        else:
            ranges.append((size, size))
    return ranges


def _to_dense(
    x: Tensor,
    edge_index: Tensor,
    edge_attr: Tensor,
    nodes: Tensor,
    graph: Tensor,
    position: Tensor,
    size: int,
) -> Tensor:
    """Build the tensor of node pairs, [b, size, size, w], of b graphs of similar size.

    Node states are on the diagonal and edge states off the diagonal; padding is zero.
    The last four arguments are those that `_buckets` yields.
    """
    num_graphs = int(graph.max()) + 1
    at = x.new_full((x.size(0),), -1, dtype=torch.long)
    at[nodes] = graph * size + position
    source, target = at[edge_index]
    inside = target >= 0
    # Entry (i, j) of a graph is the edge j -> i, so that entry (i, k) of a matrix
    # product sums over the paths k -> j -> i.
    edges = target[inside] * size + source[inside] % size
    diagonal = (graph * size + position) * size + position
    flat = x.new_zeros(num_graphs * size * size, x.size(1))
    flat = flat.index_add(0, diagonal, x[nodes])
    flat = flat.index_add(0, edges, edge_attr[inside].to(flat.dtype))
    return flat.view(num_graphs, size, size, -1)


def _real_pairs(graph: Tensor, position: Tensor, size: int) -> Tensor:
    """Return a mask, [b, size, size, 1]: True for node pairs, False for padding."""
    real = torch.zeros(
        int(graph.max()) + 1, size, device=graph.device, dtype=torch.bool
    )
    real[graph, position] = True
    return (real[:, :, None] & real[:, None, :])[..., None]
