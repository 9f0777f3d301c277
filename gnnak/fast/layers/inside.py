"""Messages inside and across rooted subgraphs, without stored messages.

A node copy is a node as it occurs in one rooted subgraph; an edge copy is an edge as it
occurs in one rooted subgraph. All subgraph GNNs of `gnnak.nn.family` pass messages with
these functions.
"""

from typing import TypeGuard

import torch
from torch import Tensor

from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.convs import can_run, run_conv
from gnnak.fast.layers.parts import has_hooks
from gnnak.fast.layers.rows import Rows
from gnnak.nn.calling.masks import explained_convs
from gnnak.nn.copies import Messages
from gnnak.nn.family.gnn import Conv
from gnnak.nn.features import CategoricalEncoder, ConstantEncoder
from gnnak.nn.padding import on_copies
from gnnak.subgraphs.across import AcrossEdges
from gnnak.subgraphs.groups import group
from gnnak.subgraphs.rooted import RootedSubgraphs


def can_fuse_messages(
    conv: Messages, z: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> TypeGuard[Conv]:
    """Return whether `fused_messages` computes the same result as a conv.

    The edge encoder must encode each edge by itself, so that it can encode the edges of
    the graph instead of the edge copies, which are many more.

    Args:
        conv: The GNN that computes the messages.
        z: States of the m node copies (nodes as they occur in one subgraph), [m, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Attributes of the edges of the graph; None if there are none.
    """
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    if type(conv) is not Conv or has_hooks(conv) or explained_convs(conv.gnn):
        return False
    if not known or not subgraphs.num_copies or conv.calling.keywords is not None:
        return False
    e = _states_like(conv, edge_attr)
    if e is NotImplemented:
        return False
    if not torch.is_autocast_enabled(z.device.type):
        dtype = next(conv.gnn.parameters(), z).dtype
        if z.dtype != dtype or (e is not None and e.dtype != dtype):
            return False
    return can_run(conv.gnn, e, z.size(1))


def _states_like(conv: Conv, edge_attr: Tensor | None) -> Tensor | None:
    """Return a tensor with the width and dtype of the edge states; None if none exist.

    The result is `NotImplemented` if the edge encoder cannot encode the edges of the
    graph instead of the edge copies.
    """
    encoder = conv.edge_encoder
    if not conv.reads_edges or encoder is None:
        return edge_attr if conv.reads_edges else None
    if any(map(has_hooks, encoder.modules())):
        return NotImplemented
    if type(encoder) is CategoricalEncoder:
        return encoder.tables.weight
    return encoder.weight if type(encoder) is ConstantEncoder else NotImplemented


def fused_messages(
    conv: Conv,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | None,
    edges: Edges,
) -> Tensor:
    """Apply a conv to node copies along given edges.

    Args:
        conv: A conv that `can_fuse_messages` accepts.
        z: States of the m node copies (nodes as they occur in one subgraph), [m, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Attributes of the edges of the graph; None if there are none.
        edges: The edges between node copies.

    Returns:
        The output of the conv, one row per node copy.
    """
    e = edge_attr if conv.reads_edges else None
    if conv.reads_edges and conv.edge_encoder is not None:
        e = conv.edge_encoder(edge_attr, subgraphs.num_edges)
    kind = z.device.type
    if torch.is_autocast_enabled(kind):
        z = z.to(torch.get_autocast_dtype(kind))
    with on_copies(subgraphs):
        return run_conv(conv.gnn, Rows(z.contiguous()), e, edges)


def across_groups(subgraphs: RootedSubgraphs, links: AcrossEdges) -> Edges:
    """Return edges across rooted subgraphs, sorted by target, with their groups.

    The result is cached after first use.

    Args:
        subgraphs: The rooted subgraphs.
        links: The edges across subgraphs, in any order.
    """
    return subgraphs.once("across groups", lambda: _grouped(subgraphs, links))


def _grouped(subgraphs: RootedSubgraphs, links: AcrossEdges) -> Edges:
    assert subgraphs.num_edges is not None
    size = subgraphs.num_copies
    target, order = torch.sort(links.edge_index[1], stable=True)
    source = links.edge_index[0].index_select(0, order)
    edge = links.edge.index_select(0, order)
    return Edges(
        source,
        target,
        edge,
        group(target, size, in_order=True),
        group(source, size),
        group(edge, subgraphs.num_edges),
    )
