"""Check that the fields of a `RootedSubgraphs` have their documented properties.

The argument `record` is the `RootedSubgraphs` object to check.
"""

from __future__ import annotations

from typing import Protocol, Self

import torch
from torch import Tensor

from gnnak.errors import SubgraphError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.ragged import counts_of
from gnnak.graphs.real import RealCounts
from gnnak.subgraphs.distances import hops_to_root

TENSORS = ("root", "node", "subgraph", "hop", "edge_index", "edge")
"""Names of the fields of `RootedSubgraphs` that are tensors."""


class Record(Protocol):
    """The attributes of `RootedSubgraphs` that the checks in this module read.

    This is a `typing.Protocol`, because importing `RootedSubgraphs` itself would be a
    circular import.
    """

    @property
    def root(self) -> Tensor: ...
    @property
    def node(self) -> Tensor: ...
    @property
    def subgraph(self) -> Tensor: ...
    @property
    def hop(self) -> Tensor: ...
    @property
    def edge_index(self) -> Tensor: ...
    @property
    def edge(self) -> Tensor: ...
    @property
    def num_nodes(self) -> int | None: ...
    @property
    def num_edges(self) -> int | None: ...
    @property
    def real(self) -> RealCounts | None: ...
    @property
    def num_subgraphs(self) -> int: ...
    @property
    def num_copies(self) -> int: ...
    @property
    def centroid(self) -> Tensor: ...
    @property
    def max_hop(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    def unpadded(self) -> Self: ...


def check_record(
    record: Record,
    edge_index: Tensor | None,
    num_nodes: int | None,
    induced: bool = True,
) -> None:
    """Check that rooted subgraphs have the properties that `RootedSubgraphs` documents.

    Args:
        record: The rooted subgraphs to check.
        edge_index: The edges of the original graph, [2, e]. If given, the edges of the
            subgraphs are compared with these edges.
        num_nodes: Number of nodes of the original graph; required with `edge_index`.
        induced: Whether to check that no edge between nodes of a subgraph is missing.

    Raises:
        SubgraphError: If a property does not hold; the message names the first such
            property.
    """
    if None not in (num_nodes, record.num_nodes) and num_nodes != record.num_nodes:
        raise SubgraphError(
            f"the record is for a graph with {record.num_nodes} nodes, not {num_nodes}."
        )
    _check_shapes(record)
    if record.real is not None:
        _check_padding(record)
        real_nodes = None if num_nodes is None else int(record.real.nodes)
        if edge_index is not None:
            edge_index = edge_index[:, : int(record.real.edges)]
        check_record(record.unpadded(), edge_index, real_nodes, induced)
        return
    _check_copies(record, num_nodes)
    _check_edges(record)
    _check_hops(record)
    if edge_index is not None:
        if num_nodes is None:
            raise SubgraphError("check() got edge_index without num_nodes; give both.")
        _check_against(record, edge_index, num_nodes)
        if induced:
            _check_induced(record, edge_index, num_nodes)


def _check_shapes(record: Record) -> None:
    """Check dtype, device and shape of every tensor of `record`."""
    for name in TENSORS:
        value = getattr(record, name)
        if not isinstance(value, Tensor) or value.dtype != torch.long:
            raise SubgraphError(f"{name} must be an int64 tensor.")
        if value.device != record.root.device:
            raise SubgraphError(f"{name} is not on the same device as root.")
    if record.edge_index.dim() != 2 or record.edge_index.size(0) != 2:
        shape = list(record.edge_index.shape)
        raise SubgraphError(f"edge_index has shape {shape}; it must be [2, f].")
    copies = {record.node.shape, record.subgraph.shape, record.hop.shape}
    flat = record.root.dim() == record.node.dim() == record.edge.dim() == 1
    if len(copies) != 1 or not flat:
        raise SubgraphError("node, subgraph and hop must have the same shape, [m].")
    if record.edge.numel() != record.edge_index.size(1):
        raise SubgraphError("edge and edge_index must have the same length, f.")


def _check_padding(record: Record) -> None:
    """Check that indices in padding rows refer only to padding rows.

    Padding rows are rows added to a tensor to reach a fixed size.
    """
    assert record.real is not None
    real = record.real.on_host()
    for name, rows, refers_to, size in (
        ("root", "subgraphs", "nodes", record.num_nodes),
        ("node", "copies", "nodes", record.num_nodes),
        ("subgraph", "copies", "subgraphs", record.num_subgraphs),
        ("edge_index", "edge_copies", "copies", record.num_copies),
        ("edge", "edge_copies", "edges", record.num_edges),
    ):
        padding = getattr(record, name)[..., real[rows] :]  # type: ignore[index]
        outside = padding < real[refers_to]  # type: ignore[index]
        if size is not None:
            outside |= padding >= size
        if outside.any():
            raise SubgraphError(
                f"a padding row of {name} refers to a row of {refers_to} that is not "
                "padding."
            )


def _check_copies(record: Record, num_nodes: int | None) -> None:
    """Check the nodes of the rooted subgraphs in `record`.

    Node numbers must be in range and sorted, and every subgraph must contain its root.
    """
    size = record.num_nodes if num_nodes is None else num_nodes
    if size is None:
        both = torch.cat([record.root, record.node])
        size = int(both.max()) + 1 if both.numel() else 0
    for name, value, bound in (
        ("root", record.root, size),
        ("node", record.node, size),
        ("subgraph", record.subgraph, record.num_subgraphs),
    ):
        if value.numel() and (value.min() < 0 or value.max() >= bound):
            raise SubgraphError(f"{name} must lie in 0..{bound - 1}.")
    if record.root.unique().numel() != record.num_subgraphs:
        raise SubgraphError("a node is the root of two subgraphs.")
    if (torch.diff(record.subgraph * size + record.node) <= 0).any():
        raise SubgraphError(
            "copies must be sorted by (subgraph, node), without duplicates."
        )
    if (record.centroid < 0).any():
        raise SubgraphError("a subgraph does not contain its root.")


def _check_edges(record: Record) -> None:
    """Check the edges of the rooted subgraphs in `record`.

    Edge numbers must be in range and sorted, and both ends of an edge must be in the
    same subgraph.
    """
    check_edge_index(record.edge_index, record.num_copies)
    edges, size = record.edge, record.num_edges
    if size is not None and edges.numel() and (edges.min() < 0 or edges.max() >= size):
        raise SubgraphError(f"edge must lie in 0..{size - 1}.")
    source, target = record.edge_index
    if (record.subgraph[source] != record.subgraph[target]).any():
        raise SubgraphError("an edge copy joins two subgraphs.")
    same_target = torch.diff(target) == 0
    same_source = same_target & (torch.diff(source) == 0)
    if (
        (torch.diff(target) < 0).any()
        or (torch.diff(source)[same_target] < 0).any()
        or (torch.diff(record.edge)[same_source] <= 0).any()
    ):
        raise SubgraphError("edge copies must be sorted by (target, source, edge).")


def _check_hops(record: Record) -> None:
    """Recompute the distances to the root, and compare them with `record.hop`."""
    bound = max(record.max_hop, 0)
    true = hops_to_root(record.edge_index, record.centroid, record.num_copies, bound)
    if not torch.equal(true, record.hop):
        raise SubgraphError("hop is not the distance to the root in the subgraph.")


def _check_against(record: Record, edge_index: Tensor, num_nodes: int) -> None:
    """Check that the edges of the rooted subgraphs are edges of the given graph."""
    check_edge_index(edge_index, num_nodes)
    if record.edge.numel() and (
        record.edge.min() < 0 or record.edge.max() >= edge_index.size(1)
    ):
        raise SubgraphError(f"edge must lie in 0..{edge_index.size(1) - 1}.")
    if not torch.equal(record.node[record.edge_index], edge_index[:, record.edge]):
        raise SubgraphError("an edge copy does not have the same ends as its edge.")


def _check_induced(record: Record, edge_index: Tensor, num_nodes: int) -> None:
    """Check that each subgraph has all edges of the graph between its nodes."""
    # An edge must have as many copies as there are subgraphs that contain both ends.
    wanted = torch.zeros(edge_index.size(1), dtype=torch.long, device=record.device)
    for index in range(record.num_subgraphs):
        inside = torch.zeros(num_nodes, dtype=torch.bool, device=record.device)
        inside[record.node[record.subgraph == index]] = True
        wanted += inside[edge_index].all(dim=0)
    if not torch.equal(wanted, counts_of(record.edge, edge_index.size(1))):
        raise SubgraphError("an edge with both ends in a subgraph has no copy.")
