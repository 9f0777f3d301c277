"""PPGN: a dense, provably powerful GNN, as base GNN or on whole graphs."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gnnak.errors import EdgeAttrError
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.nn.norm import BatchNorm
from gnnak.typing import check_count

BUCKET_GROWTH = 1.2
"""How much larger than its smallest graph the largest of a bucket may be."""


class PPGN(nn.Module):
    r"""Matrix products over pairs of nodes; 2-FWL (= 3-WL) expressive.

    Each (sub)graph is a tensor $X$ [w, n, n]: encoded nodes on the diagonal, encoded
    edges off it. A block is

    $$X' = W\,[X,\ \text{MLP}_1(X) \cdot \text{MLP}_2(X)]$$

    with channel-wise matrix products, and the state of node $i$ is read out from
    $[X_{ii},\ \sum_{j \ne i} X_{ij}]$ by BatchNorm and an MLP. Graphs of like size are
    padded and multiplied together, so that one large graph does not pad all others;
    padding is masked out, and the norm sees real nodes only.

    Args:
        channels: Width of node and edge states, w.
        num_layers: Number of blocks.
    """

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
            edge_index: Directed edges, [2, e]; a duplicate adds to its pair's entry, a
                self loop to its node's.
            edge_attr: Edge states, [e, w]; ones if not given.
            batch: Which graph each node is in, [n]; one graph if not given.
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
        for nodes, row, place, size in _buckets(batch):
            dense = _to_dense(x, edge_index, edge_attr, nodes, row, place, size)
            mask = _real_pairs(row, place, size)
            for block in self.blocks:
                dense = block(dense, mask)
            diagonal = dense[row, place, place]
            others = dense.sum(dim=2)[row, place] - diagonal
            states = torch.cat([diagonal, others], dim=1)
            pairs = pairs.index_copy(0, nodes, states.to(pairs.dtype))
        return self.readout(self.norm(pairs))


class PPGNBlock(nn.Module):
    """One block of `PPGN` on [b, n, n, w] tensors.

    Args:
        channels: Width of the pair states, w.
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

    def forward(self, pairs: Tensor, mask: Tensor) -> Tensor:
        """Map pair states [b, n, n, w] to new ones; `mask` [b, n, n, 1] says which."""
        left = (self.left(pairs) * mask).permute(0, 3, 1, 2)
        right = (self.right(pairs) * mask).permute(0, 3, 1, 2)
        product = (left @ right).permute(0, 2, 3, 1)
        return self.mix(torch.cat([pairs, product.to(pairs.dtype)], dim=3)) * mask


def _buckets(batch: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, int]]:
    """Cut the graphs of a batch into buckets of like size.

    Yields the bucket's nodes [b], the row of each node's graph in the bucket, the place
    of each node in its graph, and the size to pad to.
    """
    if not batch.numel():
        return
    sizes = counts_of(batch, int(batch.max()) + 1)
    order = torch.argsort(batch, stable=True)
    place = torch.empty_like(batch)
    place[order] = torch.arange(batch.numel(), device=batch.device)
    place -= pointers(sizes).index_select(0, batch)
    for low, high in _size_ranges(sizes):
        inside = (sizes >= low) & (sizes <= high)
        rank = torch.cumsum(inside, 0) - 1
        nodes = inside.index_select(0, batch).nonzero().flatten()
        yield nodes, rank[batch[nodes]], place[nodes], high


def _size_ranges(sizes: Tensor) -> list[tuple[int, int]]:
    """Group the sizes that occur into (smallest, largest) ranges of like size."""
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
    row: Tensor,
    place: Tensor,
    size: int,
) -> Tensor:
    """The bucket's graphs, [b, size, size, w]: nodes on the diagonal, edges off it."""
    num_graphs = int(row.max()) + 1
    at = x.new_full((x.size(0),), -1, dtype=torch.long)
    at[nodes] = row * size + place
    source, target = at[edge_index]
    inside = target >= 0
    # Entry (i, j) of a graph is the edge j -> i: a product sums over middle nodes.
    edges = target[inside] * size + source[inside] % size
    diagonal = (row * size + place) * size + place
    flat = x.new_zeros(num_graphs * size * size, x.size(1))
    flat = flat.index_add(0, diagonal, x[nodes])
    flat = flat.index_add(0, edges, edge_attr[inside].to(flat.dtype))
    return flat.view(num_graphs, size, size, -1)


def _real_pairs(row: Tensor, place: Tensor, size: int) -> Tensor:
    """1 where both nodes of a pair are real, else 0: [b, size, size, 1]."""
    real = torch.zeros(int(row.max()) + 1, size, device=row.device, dtype=torch.bool)
    real[row, place] = True
    return (real[:, :, None] & real[:, None, :])[..., None]
