r"""GINE's sum of messages in every rooted subgraph; equal messages are computed once.

GINE sums the messages $\text{ReLU}(c_j + e_{ji})$. The state $c_j$ of a node copy (a
node as it occurs in one rooted subgraph) depends only on the node and on its distance
to the root. So a message depends only on the edge and on the distance of its source to
the root: there are about half as many different messages as edges in all subgraphs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import GINEConv

from gnnak.fast.cpu.incidence import Incidence, Ones, gather_matrix
from gnnak.fast.cpu.pairs import HopPairs, numbered
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.groups import group
from gnnak.subgraphs.rooted import RootedSubgraphs


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
    """Return the input of the base GNN for each pair of a node and a distance, [u, w].

    Args:
        layer: The GNN-AK layer.
        x: Node states, [n, c].
        pairs: The pairs.
    """
    h = pairs.of_keys @ x
    if layer.hop_table is None:
        return h
    d = layer.hop_table.weight
    if layer.hop_linear is not None:
        return h + pairs.one_hot @ layer.hop_linear(d)
    return torch.cat([h, pairs.one_hot @ d], dim=1)


def gine_sums(conv: GINEConv, c: Tensor, e: Tensor, messages: Messages) -> Tensor:
    r"""Return $(1 + \epsilon) c_i + \sum_j \text{ReLU}(c_j + e_{ji})$, [m, w].

    Args:
        conv: The conv, for its weights.
        c: States of the pairs (node, distance), [u, w].
        e: States of the edges of the graph.
        messages: The different messages.
    """
    e = e if conv.lin is None else conv.lin(e)
    sent = (messages.source @ c + messages.edge @ e).relu_()
    return messages.into @ torch.cat([sent, (1 + conv.eps) * c])


def find_messages(subgraphs: RootedSubgraphs, pairs: HopPairs) -> Messages:
    """Find the different messages of all rooted subgraphs; cached in the subgraphs.

    Args:
        subgraphs: The rooted subgraphs, with `num_nodes` and `num_edges` set.
        pairs: The pairs of a node and a distance to the root.
    """
    num_pairs, num_hops = pairs.one_hot.shape

    def find() -> Messages:
        """Compute the result, if it is not in the cache."""
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

    return subgraphs.once(f"messages, {num_hops}", find)


def _received(
    subgraphs: RootedSubgraphs, number: Tensor, count: int, pairs: HopPairs
) -> Incidence:
    """Return the matrix `Messages.into`.

    Args:
        subgraphs: The rooted subgraphs.
        number: For each edge copy (an edge as it occurs in one rooted subgraph), the
            number of its message, [f].
        count: Number of different messages, v.
        pairs: The pairs of a node and a distance to the root.
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
