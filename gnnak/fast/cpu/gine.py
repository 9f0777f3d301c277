r"""GINE's sum of messages in every rooted subgraph, for states that occur many times.

GINE sums the messages $\text{ReLU}(c_j + e_{ji})$. The state $c_j$ of a node copy (a
node as it occurs in one rooted subgraph) depends only on the node and on its distance
to the root. So a message depends only on the edge and on the distance of its source:
there are about half as many different messages as edges in all subgraphs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import GINEConv

from gnnak.fast.cpu.incidence import Incidence, gather_matrix
from gnnak.fast.cpu.pairs import HopPairs, numbered
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.rooted import RootedSubgraphs


class Messages(NamedTuple):
    """The different messages: pairs of an edge and the distance of its source."""

    source: Incidence
    """[v, u]: for each message, the pair (node, distance) that sends the message."""
    edge: Incidence
    """[v, e]: for each message, its edge."""
    into: Incidence
    """[m, v]: for each node copy, the messages that the node copy receives."""


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


def gine_sums(
    conv: GINEConv, c: Tensor, own: Tensor, e: Tensor, messages: Messages
) -> Tensor:
    r"""Return $(1 + \epsilon) c_i + \sum_j \text{ReLU}(c_j + e_{ji})$, [m, w].

    Args:
        conv: The conv, for its weights.
        c: States of the pairs (node, distance), [u, w].
        own: States of the m node copies (nodes as they occur in one subgraph), [m, w].
        e: States of the edges of the graph.
        messages: The different messages.
    """
    e = e if conv.lin is None else conv.lin(e)
    sent = (messages.source @ c).add_(messages.edge @ e).relu_()
    return torch.addcmul(messages.into @ sent, own, 1 + conv.eps)


def find_messages(subgraphs: RootedSubgraphs, pairs: HopPairs) -> Messages:
    """Find the different messages of all rooted subgraphs; cached in the subgraphs.

    Args:
        subgraphs: The rooted subgraphs, with `num_nodes` and `num_edges` set.
        pairs: The pairs of a node and a distance to the root.
    """
    num_hops = pairs.one_hot.size(1)

    def find() -> Messages:
        source, num_edges = subgraphs.edge_index[0], subgraphs.num_edges
        assert num_edges is not None
        sender = pairs.of_copies.columns.index_select(0, source)
        hop = pairs.one_hot.argmax(dim=1).index_select(0, sender)
        key = subgraphs.edge * num_hops + hop
        distinct, number = numbered(key, num_edges * num_hops)
        senders = torch.empty_like(distinct)
        senders[number] = sender  # Equal numbers have equal senders.
        edge = distinct // num_hops
        ptr = subgraphs.by("target").ptr
        targets = group(number, distinct.numel())
        assert targets.order is not None
        # Transposed, a message goes to the targets of its edge copies.
        receivers = subgraphs.edge_index[1].index_select(0, targets.order)
        into = Incidence(number, ptr, Groups(targets.ptr, receivers))
        return Messages(
            gather_matrix(senders, pairs.one_hot.size(0)),
            gather_matrix(edge, num_edges),
            into,
        )

    return subgraphs.once(f"messages, {num_hops}", find)
