"""k-WL and k-FWL: colours of k-tuples of nodes, for k = 2 and 3.

`k-WL` is the *oblivious* kind: it replaces one entry of a tuple at a time. So 2-WL is
as strong as 1-WL, and (k+1)-WL as strong as k-FWL (the *folklore* kind, which replaces
each entry by the same node at once).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.wl.interning import rank, rank_multisets, rank_pairs, rank_rows
from gnnak.wl.refinement import Coloring
from gnnak.wl.union import GraphUnion


class _Blocks(NamedTuple):
    """The tuples of all graphs, those of graphs of one size stored as one block.

    Block `b` is a contiguous [graphs, n, ..., n] array in the flat list of tuples.
    """

    graphs: list[Tensor]
    """Graphs of each block."""
    sizes: list[int]
    """Number of nodes of the graphs of each block, n."""
    k: int

    @staticmethod
    def of(union: GraphUnion, k: int) -> "_Blocks":
        sizes = torch.unique(union.sizes).tolist()
        graphs = [(union.sizes == n).nonzero().flatten() for n in sizes]
        return _Blocks(graphs, sizes, k)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Cut a flat [t] list of values into blocks [graphs, n, ..., n]."""
        lengths = [len(g) * n**self.k for g, n in zip(self.graphs, self.sizes)]
        shapes = [(len(g), *(n,) * self.k) for g, n in zip(self.graphs, self.sizes)]
        parts = torch.split(flat, lengths)
        return [part.view(shape) for part, shape in zip(parts, shapes)]


def tuple_refinement(union: GraphUnion, k: int) -> Iterator[Coloring]:
    r"""Oblivious k-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_{v} = \left(c^{(t)}_{v}, \{ c^{(t)}_{v[1 \leftarrow u]} \}_u, \dots,
    \{ c^{(t)}_{v[k \leftarrow u]} \}_u \right)$$

    Round 0 holds the isomorphism type of each tuple. The i-th multiset is the same
    along axis i, so it is ranked once for each line of that axis.
    """
    return _refine(union, k, _oblivious)


def folklore_refinement(union: GraphUnion, k: int) -> Iterator[Coloring]:
    r"""Folklore k-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_{v} = \left(c^{(t)}_{v}, \left\{ \left( c^{(t)}_{v[1 \leftarrow u]},
    \dots, c^{(t)}_{v[k \leftarrow u]} \right) \right\}_u \right)$$
    """
    return _refine(union, k, _folklore)


def _refine(
    union: GraphUnion, k: int, update: Callable[[Tensor, _Blocks], list[Tensor]]
) -> Iterator[Coloring]:
    blocks = _Blocks.of(union, k)
    graph = torch.cat(
        [torch.zeros(0, dtype=torch.long)]
        + [g.repeat_interleave(n**k) for g, n in zip(blocks.graphs, blocks.sizes)]
    )
    node = _diagonal(union, blocks)
    color = _atomic_types(union, blocks)
    while True:
        coloring = Coloring(color, graph, node)
        yield coloring
        if not color.numel():
            return
        color = rank_rows(color, *update(color, blocks))
        if int(color.max()) + 1 == coloring.num_colors:
            return


def _oblivious(color: Tensor, blocks: _Blocks) -> list[Tensor]:
    columns = []
    for axis in range(1, blocks.k + 1):
        lines = [block.movedim(axis, -1) for block in blocks.views(color)]
        shapes = [line.shape[:-1] for line in lines]
        ranked = _rank_last_axis(lines).split([shape.numel() for shape in shapes])
        columns.append(
            torch.cat(
                [
                    part.view(shape).unsqueeze(axis).expand(block.shape).flatten()
                    for part, shape, block in zip(ranked, shapes, blocks.views(color))
                ]
            )
        )
    return columns


def _folklore(color: Tensor, blocks: _Blocks) -> list[Tensor]:
    columns = []
    for axis in range(1, blocks.k + 1):
        replaced = [
            block.movedim(axis, -1).unsqueeze(axis).expand(*block.shape, block.size(1))
            for block in blocks.views(color)
        ]
        columns.append(torch.cat([part.flatten() for part in replaced]))
    seen = rank_rows(*columns)
    lengths = [g.numel() * n ** (blocks.k + 1) for g, n in zip(*blocks[:2])]
    rows = zip(seen.split(lengths), blocks.sizes)
    return [_rank_last_axis([part.view(-1, n) for part, n in rows if part.numel()])]


def _rank_last_axis(tables: list[Tensor]) -> Tensor:
    """Rank the multisets along the last axis of all tables together."""
    tables = [table.reshape(-1, table.size(-1)) for table in tables if table.numel()]
    widths = torch.tensor([table.size(1) for table in tables])
    heights = torch.tensor([table.size(0) for table in tables])
    width = widths.repeat_interleave(heights)
    row = torch.arange(width.numel()).repeat_interleave(width)
    value = torch.cat([table.flatten() for table in tables])
    return rank_multisets(row, value, width.numel())


def _diagonal(union: GraphUnion, blocks: _Blocks) -> Tensor:
    """The index of the tuple (v, ..., v) of every node v."""
    first = torch.cumsum(union.sizes, 0) - union.sizes
    index = torch.zeros(union.num_nodes, dtype=torch.long)
    start = 0
    for graphs, n in zip(blocks.graphs, blocks.sizes):
        step = sum(n**power for power in range(blocks.k))
        nodes = first[graphs][:, None] + torch.arange(n)
        begin = start + torch.arange(len(graphs))[:, None] * n**blocks.k
        index[nodes] = begin + torch.arange(n) * step
        start += len(graphs) * n**blocks.k
    return index


def _atomic_types(union: GraphUnion, blocks: _Blocks) -> Tensor:
    """Rank tuples by the colours of their nodes and of all pairs of them."""
    pairs = [_pair_types(union, g, n) for g, n in zip(blocks.graphs, blocks.sizes)]
    columns = []
    for i in range(1, blocks.k + 1):
        for j in range(i, blocks.k + 1):
            parts = [torch.zeros(0, dtype=torch.long)]
            for table, n in zip(pairs, blocks.sizes):
                shape = [1] * (blocks.k + 1)
                shape[0], shape[i], shape[j] = len(table), n, n
                if i == j:
                    table = torch.diagonal(table, dim1=1, dim2=2)
                full = (len(table), *(n,) * blocks.k)
                parts.append(table.reshape(shape).expand(full).flatten())
            columns.append(torch.cat(parts))
    return rank(rank_rows(*columns))


def _pair_types(union: GraphUnion, graphs: Tensor, n: int) -> Tensor:
    """A [graphs, n, n] table: the pair's colour, the node's on the diagonal."""
    base = int(union.edge_color.max()) + 2 if union.edge_color.numel() else 1
    place = torch.full((union.num_graphs,), -1, dtype=torch.long)
    place[graphs] = torch.arange(len(graphs))
    first = torch.cumsum(union.sizes, 0) - union.sizes
    here = place[union.graph]
    local = torch.arange(union.num_nodes) - first[union.graph]
    table = torch.zeros(len(graphs), n, n, dtype=torch.long)
    edge = (here[union.edge_index[1]] >= 0).nonzero().flatten()
    source, target = union.edge_index[:, edge]
    table[here[target], local[source], local[target]] = union.edge_color[edge] + 1
    node = (here >= 0).nonzero().flatten()
    spot = here[node], local[node], local[node]
    table[spot] += base * (1 + union.node_color[node])
    return table
