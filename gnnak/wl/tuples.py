"""k-WL and k-FWL: refine colours of k-tuples of nodes, for k = 2 and 3."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank_multisets, rank_rows
from gnnak.wl.refinement import Coloring


class TupleBlocks(NamedTuple):
    """The layout of a flat tensor, [t], with one value for each of t k-tuples of nodes.

    Graphs with the same number of nodes n form a block of shape [graphs, n, ..., n],
    with one axis of length n for each of the k entries of a tuple. The flat tensor is
    the concatenation of all blocks, flattened.
    """

    k: int
    """Length of the tuples."""
    blocks: list[tuple[Tensor, int]]
    """One entry per block. A block consists of all graphs with the same number n of
    nodes; its entry is the indices of these graphs in the union, and n."""

    @staticmethod
    def of(union: GraphUnion, k: int) -> "TupleBlocks":
        """Group the graphs of a union into blocks by their number of nodes."""
        sizes = torch.unique(union.sizes).tolist()
        return TupleBlocks(
            k, [((union.sizes == n).nonzero().flatten(), n) for n in sizes]
        )

    def views(self, flat: Tensor) -> list[Tensor]:
        """Split a flat tensor with one value per tuple into views, one for each block.

        The view of a block has the shape [graphs, n, ..., n]; n is the number of nodes
        of each graph in the block.
        """
        shapes = [(len(graphs), *(n,) * self.k) for graphs, n in self.blocks]
        parts = flat.split([len(graphs) * n**self.k for graphs, n in self.blocks])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def graph(self) -> Tensor:
        """Return for each of the t tuples the index of its graph in the union, [t]."""
        parts = [graphs.repeat_interleave(n**self.k) for graphs, n in self.blocks]
        return torch.cat([torch.zeros(0, dtype=torch.long), *parts])

    def diagonal(self, union: GraphUnion) -> Tensor:
        """Return for each node v the index of the tuple (v, ..., v) among all tuples.

        The result has the shape [n].
        """
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
        """Return the isomorphism type of each of the t tuples as a number, [t].

        The type consists of the colours of the tuple's nodes and of all pairs of these
        nodes. Two tuples have the same type iff mapping the i-th node of one tuple to
        the i-th node of the other, for all i, is an isomorphism of the coloured
        subgraphs that the tuples induce.
        """
        tables = [_pair_table(union, graphs, n) for graphs, n in self.blocks]
        ends = [(i, j) for i in range(1, self.k + 1) for j in range(i, self.k + 1)]
        return rank_rows(*(self._column(tables, i, j) for i, j in ends))

    def _column(self, tables: list[Tensor], i: int, j: int) -> Tensor:
        """Return for every tuple the colour of the pair of its i-th and j-th node.

        `tables` has for each block the output of `_pair_table`: the colours of all
        pairs of nodes. For i = j, the colour is that of the i-th node.
        """
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
    """Return for each of `graphs` a matrix with the colours of all pairs of nodes.

    All these graphs have n nodes. A pair without an edge has colour 0. The diagonal has
    the colours of the nodes, combined with the colours of their self loops.
    """
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


def tuple_refinement(union: GraphUnion, k: int) -> Iterator[Coloring]:
    r"""Run oblivious k-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_{v} = \left(c^{(t)}_{v}, \{ c^{(t)}_{v[1 \leftarrow u]} \}_u, \dots,
    \{ c^{(t)}_{v[k \leftarrow u]} \}_u \right)$$

    Here $v$ is a k-tuple and $v[i \leftarrow u]$ is $v$ with its i-th entry replaced by
    node $u$. In round 0, the colour of a tuple encodes the colours of its nodes and of
    all pairs of these nodes.
    """
    return _refine(union, k, _oblivious)


def folklore_refinement(union: GraphUnion, k: int) -> Iterator[Coloring]:
    r"""Run folklore k-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_{v} = \left(c^{(t)}_{v}, \left\{ \left( c^{(t)}_{v[1 \leftarrow u]},
    \dots, c^{(t)}_{v[k \leftarrow u]} \right) \right\}_u \right)$$

    Here $v$ is a k-tuple and $v[i \leftarrow u]$ is $v$ with its i-th entry replaced by
    node $u$. In round 0, the colour of a tuple encodes the colours of its nodes and of
    all pairs of these nodes.
    """
    return _refine(union, k, _folklore)


def _refine(
    union: GraphUnion, k: int, update: Callable[[Tensor, TupleBlocks], list[Tensor]]
) -> Iterator[Coloring]:
    """Refine the colours of all k-tuples until they are stable; yield every colouring.

    In each round, `update` returns tensors with one value per tuple. The new colour of
    a tuple encodes its old colour and these values.
    """
    blocks = TupleBlocks.of(union, k)
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


def _oblivious(color: Tensor, blocks: TupleBlocks) -> list[Tensor]:
    """Return the values that one round of oblivious k-WL adds to the colours of tuples.

    The result is k tensors. The i-th tensor has for each tuple v a number for a
    multiset of colours: the colours of all tuples that differ from v at most in the
    i-th entry.
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
    """Replace each multiset of colours along the last axis of a table by one number.

    Two numbers are equal iff the multisets are equal, also across tables.
    """
    heights = [table.shape[:-1].numel() for table in tables]
    widths = torch.tensor([table.size(-1) for table in tables])
    width = widths.repeat_interleave(torch.tensor(heights))
    row = torch.arange(width.numel()).repeat_interleave(width)
    value = torch.cat([table.flatten() for table in tables])
    return rank_multisets(row, value, width.numel()).split(heights)


def _folklore(color: Tensor, blocks: TupleBlocks) -> list[Tensor]:
    """Return the values that one round of folklore k-WL adds to the colours of tuples.

    The result is one tensor with a number for each tuple v. For every node u, replacing
    one entry of v by u gives k tuples, which have k colours. The number stands for the
    multiset of these lists of k colours, over all nodes u. A tuple whose colour no
    other tuple has is skipped, since its colour cannot be split.
    """
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
