"""Run 1-WL (colour refinement), k-WL and k-FWL on all graphs of a union."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank, rank_multisets, rank_pairs, rank_rows


class Coloring(NamedTuple):
    """The colours of items (nodes, or k-tuples of nodes) after one round of a test."""

    color: Tensor
    """[items]: the colour (0, 1, 2, ...) of each item."""
    graph: Tensor
    """[items]: the index of the graph that contains each item."""
    node: Tensor
    """[n]: for each node v, the index of the item v or, with tuples, of (v, ..., v)."""
    entries: Tensor | None = None
    """[items, k]: the k nodes of each item. None if items are all nodes or k-tuples."""

    @property
    def num_colors(self) -> int:
        return int(self.color.max()) + 1 if self.color.numel() else 0

    def fingerprints(self, num_graphs: int) -> Tensor:
        """Return a number per graph, [g], equal for equal multisets of colours."""
        return rank_multisets(self.graph, self.color, num_graphs)


def color_refinement(union: GraphUnion) -> Iterator[Coloring]:
    r"""Run 1-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_v = \left(c^{(t)}_v, \{ (e_{uv}, c^{(t)}_u) : u \in N(v) \}\right)$$

    The pair colour $e_{uv}$ encodes edge labels and direction. Round 0 has the initial
    colours; a round that splits no colour is not yielded.
    """
    items = torch.arange(union.num_nodes)
    color = rank(union.node_color)
    while True:
        coloring = Coloring(color, union.graph, items)
        yield coloring
        color = rank_pairs(color, _neighbourhoods(union, color))
        if not color.numel() or int(color.max()) + 1 == coloring.num_colors:
            return


def _neighbourhoods(union: GraphUnion, color: Tensor) -> Tensor:
    """Return the rank of each node's multiset of (edge, neighbour) colours, [n]."""
    # A colour that only one node has cannot be split: the node is skipped.
    shared = torch.bincount(color)[color] > 1
    source, target = union.edge_index
    edge = shared[target].nonzero().flatten()
    seen = rank_pairs(union.edge_color[edge], color[source[edge]])
    return rank_multisets(target[edge], seen, union.num_nodes)


def stable(rounds: Iterator[Coloring]) -> Coloring:
    for coloring in rounds:
        last = coloring
    return last


class TupleBlocks(NamedTuple):
    """All k-tuples of nodes of each graph; graphs of equal size share a block."""

    k: int
    blocks: list[tuple[Tensor, int]]
    """For each block, the indices of its graphs, and their number of nodes n."""

    def views(self, flat: Tensor) -> list[Tensor]:
        """Split a flat tensor into views [graphs, n, ..., n], one for each block."""
        shapes = [(len(graphs), *(n,) * self.k) for graphs, n in self.blocks]
        parts = flat.split([len(graphs) * n**self.k for graphs, n in self.blocks])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def graph(self) -> Tensor:
        """Return the graph of each tuple, [tuples]."""
        parts = [graphs.repeat_interleave(n**self.k) for graphs, n in self.blocks]
        return torch.cat([torch.zeros(0, dtype=torch.long), *parts])

    def diagonal(self, union: GraphUnion) -> Tensor:
        """Return, for each node v of all graphs, the index of the tuple (v, ..., v)."""
        first = torch.cumsum(union.sizes, 0) - union.sizes
        place = torch.zeros(union.num_nodes, dtype=torch.long)
        start = 0
        for graphs, n in self.blocks:
            step = sum(n**power for power in range(self.k))
            nodes = first[graphs][:, None] + torch.arange(n)
            begin = start + torch.arange(len(graphs))[:, None] * n**self.k
            place[nodes] = begin + torch.arange(n) * step
            start += len(graphs) * n**self.k
        return place

    def types(self, union: GraphUnion) -> Tensor:
        """Return the isomorphism type of each tuple as a number, [tuples]."""
        tables = [_pair_table(union, graphs, n) for graphs, n in self.blocks]
        ends = [(i, j) for i in range(1, self.k + 1) for j in range(i, self.k + 1)]
        return rank_rows(*(self._column(tables, i, j) for i, j in ends))

    def _column(self, tables: list[Tensor], i: int, j: int) -> Tensor:
        """Return, for each tuple, the colour of the pair of its i-th and j-th node."""
        parts = [torch.zeros(0, dtype=torch.long)]
        for table in tables:
            num_graphs, n, _ = table.shape
            shape = [num_graphs, *(1,) * self.k]
            shape[i] = shape[j] = n
            if i == j:
                table = torch.diagonal(table, dim1=1, dim2=2)
            full = (num_graphs, *(n,) * self.k)
            parts.append(table.reshape(shape).expand(full).flatten())
        return torch.cat(parts)


def _pair_table(union: GraphUnion, graphs: Tensor, n: int) -> Tensor:
    """Return the colours of node pairs, [graphs, n, n]; 0 for pairs without an edge."""
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
    diagonal = here[node], local[node], local[node]
    table[diagonal] += base * (1 + union.node_color[node])
    return table


def tuple_refinement(
    union: GraphUnion, k: int, update: Callable[[Tensor, TupleBlocks], list[Tensor]]
) -> Iterator[Coloring]:
    """Refine colours of k-tuples of nodes until they are stable.

    In round 0, the colour of a tuple encodes the colours of its nodes and of all pairs
    of its nodes. In each round, `update` returns tensors, [tuples], that are combined
    with the old colours. The last colouring that is yielded is the stable one.
    """
    sizes = union.sizes
    parts = [((sizes == n).nonzero().flatten(), n) for n in sizes.unique().tolist()]
    blocks = TupleBlocks(k, parts)
    graph, node = blocks.graph(), blocks.diagonal(union)
    color = blocks.types(union)
    while True:
        coloring = Coloring(color, graph, node)
        yield coloring
        if not color.numel():
            return
        color = rank_rows(color, *update(color, blocks))
        if int(color.max()) + 1 == coloring.num_colors:
            return


def oblivious(color: Tensor, blocks: TupleBlocks) -> list[Tensor]:
    r"""Return what one round of oblivious k-WL adds to colours: k tensors, [tuples].

    $$c^{(t+1)}_{v} = \left(c^{(t)}_{v}, \{ c^{(t)}_{v[1 \leftarrow u]} \}_u, \dots,
    \{ c^{(t)}_{v[k \leftarrow u]} \}_u \right)$$

    The tuple $v[i \leftarrow u]$ is $v$ with node $u$ as its i-th entry.
    """
    columns = []
    for axis in range(1, blocks.k + 1):
        lines = [block.movedim(axis, -1) for block in blocks.views(color)]
        ranked = _rank_lines(lines)
        spread = [
            part.view(line.shape[:-1]).unsqueeze(-1).expand(line.shape)
            for part, line in zip(ranked, lines, strict=True)
        ]
        columns.append(torch.cat([part.movedim(-1, axis).flatten() for part in spread]))
    return columns


def _rank_lines(tables: list[Tensor]) -> tuple[Tensor, ...]:
    """Replace multisets along the last axis by ranks, equal for equal multisets."""
    heights = [table.shape[:-1].numel() for table in tables]
    widths = torch.tensor([table.size(-1) for table in tables])
    width = widths.repeat_interleave(torch.tensor(heights))
    row = torch.arange(width.numel()).repeat_interleave(width)
    value = torch.cat([table.flatten() for table in tables])
    return rank_multisets(row, value, width.numel()).split(heights)


def folklore(color: Tensor, blocks: TupleBlocks) -> list[Tensor]:
    r"""Return what one round of folklore k-WL adds to colours: a tensor, [tuples].

    $$c^{(t+1)}_{v} = \left(c^{(t)}_{v}, \left\{ \left( c^{(t)}_{v[1 \leftarrow u]},
    \dots, c^{(t)}_{v[k \leftarrow u]} \right) \right\}_u \right)$$
    """
    # A tuple whose colour no other tuple has is skipped: it cannot be split.
    shared = torch.bincount(color)[color] > 1
    columns: list[list[Tensor]] = [[] for _ in range(blocks.k)]
    widths = []
    views = zip(blocks.views(color), blocks.views(shared), strict=True)
    for block, shared_block in views:
        n = block.size(-1)
        entries = shared_block.nonzero()
        widths.append(torch.full((len(entries),), n))
        for axis in range(1, blocks.k + 1):
            index = [entry[:, None] for entry in entries.T]
            index[axis] = torch.arange(n)[None, :]
            columns[axis - 1].append(block[tuple(index)].flatten())
    seen = rank_rows(*(torch.cat(column) for column in columns))
    row = shared.nonzero().flatten().repeat_interleave(torch.cat(widths))
    return [rank_multisets(row, seen, color.numel())]


REFINEMENTS: dict[str, Callable[[GraphUnion], Iterator[Coloring]]] = {
    "1-wl": color_refinement,
    "2-wl": partial(tuple_refinement, k=2, update=oblivious),
    "3-wl": partial(tuple_refinement, k=3, update=oblivious),
    "2-fwl": partial(tuple_refinement, k=2, update=folklore),
    "3-fwl": partial(tuple_refinement, k=3, update=folklore),
}
"""Maps WL tests without subgraphs to functions that yield all colourings. Each test can
be the HASH of Subgraph-1-WL."""
