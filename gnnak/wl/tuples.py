"""k-WL and k-FWL: colours of k-tuples of nodes, for k = 2 and 3.

`k-WL` is the *oblivious* kind: it replaces one entry of a tuple at a time. So 2-WL is
as strong as 1-WL (but for self loops, which 1-WL takes for neighbours), and (k+1)-WL as
strong as k-FWL (the *folklore* kind, which replaces each entry by the same node at
once).
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gnnak.wl.blocks import TupleBlocks
from gnnak.wl.interning import rank_multisets, rank_rows
from gnnak.wl.refinement import Coloring
from gnnak.wl.union import GraphUnion


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

    Round 0 holds the isomorphism type of each tuple.
    """
    return _refine(union, k, _folklore)


def _refine(
    union: GraphUnion, k: int, update: Callable[[Tensor, TupleBlocks], list[Tensor]]
) -> Iterator[Coloring]:
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
    """The k multisets of every tuple, ranked, as columns [t]."""
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
    """Rank the multisets along the last axis of all tables together, table by table."""
    heights = [table.shape[:-1].numel() for table in tables]
    widths = torch.tensor([table.size(-1) for table in tables])
    width = widths.repeat_interleave(torch.tensor(heights))
    row = torch.arange(width.numel()).repeat_interleave(width)
    value = torch.cat([table.flatten() for table in tables])
    return rank_multisets(row, value, width.numel()).split(heights)


def _folklore(color: Tensor, blocks: TupleBlocks) -> list[Tensor]:
    """The multiset of every tuple, ranked; 0 where the tuple's colour is its alone."""
    crowded = torch.bincount(color)[color] > 1
    columns: list[list[Tensor]] = [[] for _ in range(blocks.k)]
    widths = []
    views = zip(blocks.views(color), blocks.views(crowded), strict=True)
    for block, open_tuples in views:
        n = block.size(-1)
        entries = open_tuples.nonzero()
        widths.append(torch.full((len(entries),), n))
        for axis in range(1, blocks.k + 1):
            index = [entry[:, None] for entry in entries.T]
            index[axis] = torch.arange(n)[None, :]
            columns[axis - 1].append(block[tuple(index)].flatten())
    seen = rank_rows(*(torch.cat(column) for column in columns))
    row = crowded.nonzero().flatten().repeat_interleave(torch.cat(widths))
    return [rank_multisets(row, seen, color.numel())]
