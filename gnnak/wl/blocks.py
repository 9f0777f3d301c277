"""All k-tuples of nodes of all graphs, and what each tuple looks like at the start."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.wl.interning import rank_rows
from gnnak.wl.union import GraphUnion


class TupleBlocks(NamedTuple):
    """The k-tuples of all graphs in one flat list, [t].

    Graphs of one size are stored together: a block is a [graphs, n, ..., n] array with
    k axes of tuple entries, and the flat list is one block after the other.
    """

    k: int
    """Length of the tuples."""
    blocks: list[tuple[Tensor, int]]
    """The graphs of each block and their number of nodes, n."""

    @staticmethod
    def of(union: GraphUnion, k: int) -> "TupleBlocks":
        """Sort the graphs of a union by size."""
        sizes = torch.unique(union.sizes).tolist()
        return TupleBlocks(
            k, [((union.sizes == n).nonzero().flatten(), n) for n in sizes]
        )

    def views(self, flat: Tensor) -> list[Tensor]:
        """Cut values of all tuples, [t], into blocks [graphs, n, ..., n]."""
        shapes = [(len(graphs), *(n,) * self.k) for graphs, n in self.blocks]
        parts = flat.split([len(graphs) * n**self.k for graphs, n in self.blocks])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def graph(self) -> Tensor:
        """[t]: the graph of each tuple."""
        parts = [graphs.repeat_interleave(n**self.k) for graphs, n in self.blocks]
        return torch.cat([torch.zeros(0, dtype=torch.long), *parts])

    def diagonal(self, union: GraphUnion) -> Tensor:
        """[n]: the place of the tuple (v, ..., v) of every node v."""
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
        """[t]: the rank of each tuple's node colours and pair colours.

        Two tuples have the same type iff matching their entries is an isomorphism of
        the coloured graphs on them.
        """
        tables = [_pair_table(union, graphs, n) for graphs, n in self.blocks]
        ends = [(i, j) for i in range(1, self.k + 1) for j in range(i, self.k + 1)]
        return rank_rows(*(self._column(tables, i, j) for i, j in ends))

    def _column(self, tables: list[Tensor], i: int, j: int) -> Tensor:
        """The pair colour of entries i and j of every tuple; of a node if i = j."""
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
    """A [graphs, n, n] table: the pair's colour, with the node's on the diagonal."""
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
