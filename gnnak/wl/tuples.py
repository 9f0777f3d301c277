"""k-WL and k-FWL: refine colours of k-tuples of nodes, for k = 2 and 3.

WL stands for Weisfeiler-Leman. `k-WL` is *oblivious* k-WL: for each of the k entries
separately, it collects the colours of the tuples in which this entry is replaced by
some node. `k-FWL` is *folklore* k-WL: for each node, it collects the colours of the k
tuples in which one entry is replaced by this node. 2-WL is as powerful as 1-WL (except
that 1-WL does not distinguish a self loop from a neighbour of the same colour), and
(k+1)-WL is as powerful as k-FWL.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gnnak.wl.blocks import TupleBlocks
from gnnak.wl.interning import rank_multisets, rank_rows
from gnnak.wl.refinement import Coloring
from gnnak.wl.union import GraphUnion


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
