"""GINE's sums of messages in every rooted subgraph on a CPU, each computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import GINEConv

from gnnak.nn.encodings import HopTable
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.groups import group
from gnnak.subgraphs.rooted import RootedSubgraphs


class Ones(NamedTuple):
    """Where the ones of a sparse matrix of zeros and ones are, row by row."""

    columns: Tensor
    """[q]: the column of each one, sorted by row."""
    ptr: Tensor | None = None
    """[r + 1]: where each of the r rows begins in `columns`. None means that each row
    has exactly one 1; a product then only gathers rows."""

    @property
    def num_rows(self) -> int:
        """Number of rows, r."""
        return (self.columns if self.ptr is None else self.ptr[1:]).numel()


@dataclass(frozen=True, eq=False)
class Incidence:
    """A sparse matrix of zeros and ones, [r, k], and its transpose."""

    ones: Ones
    """The ones of each row."""
    transposed: Ones
    """The ones of each column: row numbers, sorted by column."""

    def __matmul__(self, values: Tensor) -> Tensor:
        """Sum the rows of `values`, [k, c], at the ones of each row, as [r, c].

        The gradient needs no atomic additions.
        """
        return _Product.apply(values, self)

    @property
    def T(self) -> Incidence:  # noqa: N802 (as in PyTorch)
        """The transposed matrix, [k, r]."""
        return Incidence(self.transposed, self.ones)


def gather_matrix(index: Tensor, size: int, in_order: bool = False) -> Incidence:
    """Return the matrix whose product with `values`, [size, c], is `values[index]`.

    `in_order` tells that `index` is sorted.
    """
    groups = group(index, size, in_order)
    order = groups.order
    if order is None:
        order = torch.arange(index.numel(), device=index.device)
    return Incidence(Ones(index), Ones(order, groups.ptr))


class _Product(torch.autograd.Function):
    """Autograd function of the product, also for `torch.func`."""

    @staticmethod
    def forward(values: Tensor, matrix: Incidence) -> Tensor:
        columns, ptr = matrix.ones
        if ptr is None:
            return values.index_select(0, columns)
        if not columns.numel():
            return values.new_zeros(matrix.ones.num_rows, values.size(1))
        return torch.embedding_bag(
            values.contiguous(), columns, ptr, include_last_offset=True
        )[0]

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Incidence], output: Tensor
    ) -> None:
        ctx.matrix = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.T @ grad, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return ctx.matrix @ tangent

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], values: Tensor, matrix: Incidence
    ) -> tuple[Tensor, int]:
        # Treat the batch of b matrices [k, c] as one matrix [k, c b].
        assert in_dims[0] is not None
        rows = values.movedim(in_dims[0], -1)
        product = matrix @ rows.flatten(1)
        return product.view(matrix.ones.num_rows, *rows.shape[1:]), 2


PairAxis = Literal["node", "subgraph"]
"""The first key of a pair: the node or the subgraph of a node copy."""


class Numbering(NamedTuple):
    """The distinct values of a key, numbered in ascending order."""

    distinct: Tensor
    """[u]: the distinct values."""
    number: Tensor
    """[m]: for each row, the number of its value, in 0..u-1."""


class HopPairs(NamedTuple):
    """The distinct pairs of a node (or a subgraph) and a row of the hop table.

    The hop table has a row for each distance to the root. Pairs are sorted by node (or
    subgraph), then by row of the hop table.
    """

    of_copies: Incidence
    """[m, u]: for each node copy, its pair."""
    of_keys: Incidence
    """[u, k]: for each pair, its node or its subgraph."""
    one_hot: Tensor
    """[u, t]: for each pair, a one at its row of the hop table, and zeros elsewhere."""


def numbered(key: Tensor, size: int) -> Numbering:
    """Number the distinct values of a key, [m], in time proportional to `size`.

    Values are in 0..size-1.

    >>> numbered(torch.tensor([7, 2, 7]), 9)
    Numbering(distinct=tensor([2, 7]), number=tensor([1, 0, 1]))
    """
    occurs = torch.zeros(size, dtype=torch.bool, device=key.device)
    occurs[key] = True
    return Numbering(occurs.nonzero().flatten(), (occurs.cumsum(0) - 1)[key])


def hop_pairs(
    hops: HopTable | None,
    subgraphs: RootedSubgraphs,
    axis: PairAxis,
    dtype: torch.dtype,
) -> HopPairs:
    """Find all pairs of a node (or a subgraph) and a distance to the root that occur.

    Without a hop table, a pair is a node (or a subgraph) alone. The result is cached in
    `subgraphs`.
    """
    num_hops = 1 if hops is None else len(hops.weight)
    by_node = axis == "node"
    key = subgraphs.node if by_node else subgraphs.subgraph
    size = subgraphs.known_num_nodes if by_node else subgraphs.num_subgraphs

    def find() -> HopPairs:
        pair = key if hops is None else key * num_hops + hops.rows(subgraphs)
        distinct, number = numbered(pair, size * num_hops)
        keys = gather_matrix(distinct // num_hops, size, in_order=True)
        columns = torch.arange(num_hops, device=key.device)
        one_hot = (distinct.remainder(num_hops)[:, None] == columns).to(dtype)
        copies = gather_matrix(number, distinct.numel())
        return HopPairs(copies, keys, one_hot)

    return subgraphs.once(HopPairs, find, axis, num_hops, dtype)


class Messages(NamedTuple):
    """The different messages, and the node copies that receive them.

    There is one message for each of v pairs of an edge and the distance of its source
    to the root. There is one state for each of u pairs of a node and its distance to
    the root. A node copy sums the messages that it receives and its own state.
    """

    source: Incidence
    """[v, u]: for each message, the pair (node, distance) that sends the message."""
    edge: Incidence
    """[v, e]: for each message, its edge."""
    into: Incidence
    """[m, v + u]: for each node copy, ones at the messages and at the state that it
    sums; the first v columns are messages, the last u columns are states."""


def pair_states(layer: GNNAK, x: Tensor, pairs: HopPairs) -> Tensor:
    """Return the input of the base GNN for each pair (node, distance), [u, w]."""
    h = pairs.of_keys @ x
    if layer.hop_table is None:
        return h
    d = layer.hop_table.weight
    if layer.hop_linear is not None:
        return h + pairs.one_hot @ layer.hop_linear(d)
    return torch.cat([h, pairs.one_hot @ d], dim=1)


def gine_sums(conv: GINEConv, c: Tensor, e: Tensor, messages: Messages) -> Tensor:
    r"""Return $(1 + \epsilon) c_i + \sum_j \text{ReLU}(c_j + e_{ji})$, [m, w].

    `c` are the states of the pairs (node, distance), [u, w].
    """
    e = e if conv.lin is None else conv.lin(e)
    sent = (messages.source @ c + messages.edge @ e).relu_()
    return messages.into @ torch.cat([sent, (1 + conv.eps) * c])


def find_messages(subgraphs: RootedSubgraphs, pairs: HopPairs) -> Messages:
    """Find the different messages of all rooted subgraphs; cached in the subgraphs."""
    num_pairs, num_hops = pairs.one_hot.shape

    def find() -> Messages:
        source, num_edges = subgraphs.edge_index[0], subgraphs.num_edges
        assert num_edges is not None
        sender = pairs.of_copies.ones.columns.index_select(0, source)
        hop = pairs.one_hot.argmax(dim=1).index_select(0, sender)
        key = subgraphs.edge * num_hops + hop
        distinct, number = numbered(key, num_edges * num_hops)
        senders = torch.empty_like(distinct)
        senders[number] = sender  # Equal numbers have equal senders.
        return Messages(
            gather_matrix(senders, num_pairs),
            gather_matrix(distinct // num_hops, num_edges, in_order=True),
            _received(subgraphs, number, distinct.numel(), pairs),
        )

    return subgraphs.once(Messages, find, num_hops)


def _received(
    subgraphs: RootedSubgraphs, number: Tensor, count: int, pairs: HopPairs
) -> Incidence:
    """Return the matrix `Messages.into`.

    `number` is the message of each edge copy, [f], of `count` different ones.
    """
    target, own = subgraphs.edge_index[1], pairs.of_copies.ones.columns
    # Edge copies are sorted by target. The state of a node copy itself comes after the
    # messages to this node copy, at the position `ptr[1:]` of the merged list.
    ptr = subgraphs.by("target").ptr
    ptr = ptr + torch.arange(ptr.numel())
    columns = target.new_empty(target.numel() + own.numel())
    columns[torch.arange(target.numel()) + target] = number
    columns[ptr[1:] - 1] = own + count
    by_message, by_pair = group(number, count), pairs.of_copies.transposed
    assert by_message.order is not None
    assert by_pair.ptr is not None
    rows = [target.index_select(0, by_message.order), by_pair.columns]
    ends = torch.cat([by_message.ptr, by_pair.ptr[1:] + target.numel()])
    return Incidence(Ones(columns, ptr), Ones(torch.cat(rows), ends))
