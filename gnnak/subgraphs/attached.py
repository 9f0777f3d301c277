"""Attach the rooted subgraphs of a batch to `edge_index`, where models read them."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.transforms.rooted_subgraph import RootedSubgraphData

from gnnak.errors import SubgraphError
from gnnak.graphs.adjacency import hops_to_root
from gnnak.subgraphs.copy_limit import Limited
from gnnak.subgraphs.encodings import without_encodings
from gnnak.subgraphs.extractors import Extractor, are_equal
from gnnak.subgraphs.rooted import RootedSubgraphs

NAME = "gnnak_subgraphs"


@dataclass(frozen=True, eq=False)
class Attached:
    """Rooted subgraphs that are attached to an `edge_index` tensor."""

    subgraphs: RootedSubgraphs
    extractor: Extractor
    edges: Tensor | None
    """A copy of `edge_index`, to detect changes; None if only gnnak writes to it."""
    version: int
    """Version counter of the tensor when the subgraphs were attached. It does not count
    writes in inference mode, or through `.data`, NumPy or DLPack."""

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickle and copy this as None, since copies have new version counters."""
        return type(None), ()


def attach(
    edge_index: Tensor,
    subgraphs: RootedSubgraphs,
    source: Extractor,
    edges: Tensor | None,
) -> None:
    setattr(edge_index, NAME, Attached(subgraphs, source, edges, edge_index._version))


def attached_to(
    edge_index: Tensor, num_nodes: int, compared: Attached | None = None
) -> Attached | None:
    """Return the attached subgraphs; None if there are none or `edge_index` changed.

    On a GPU, comparing edges synchronises. So it is skipped during a capture, and for
    the subgraphs `compared`, whose edges the caller has compared before.
    """
    found: Attached | None = getattr(edge_index, NAME, None)
    if found is None or found.version != edge_index._version:
        return None
    capturing = edge_index.is_cuda and torch.cuda.is_current_stream_capturing()
    known = capturing or (edge_index.is_cuda and found is compared)
    if found.edges is None or known or equal_edges(edge_index, found.edges):
        return found if found.subgraphs.num_nodes == num_nodes else None
    return None


def unchanged(edge_index: object) -> Tensor | None:
    """Return whether `edge_index` equals its attached copy; None if it has none."""
    edges = getattr(getattr(edge_index, NAME, None), "edges", None)
    if edges is None:
        return None
    assert isinstance(edge_index, Tensor)
    if (edge_index.shape, edge_index.device) != (edges.shape, edges.device):
        return torch.tensor(False, device="cpu")
    return (edge_index == edges).all()


def equal_edges(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors of edges are equal; on a GPU, this synchronises."""
    same_kind = one.device == other.device and one.dtype == other.dtype
    return same_kind and torch.equal(one, other)


def same_extractor(one: Extractor, other: Extractor) -> bool:
    """Return whether two extractors return the same subgraphs."""
    one, other = without_encodings(one), without_encodings(other)
    if isinstance(one, Limited) and isinstance(other, Limited):
        return replace(one, copy_limit=None) == replace(other, copy_limit=None)
    return are_equal(one, other)


def rooted_from_pyg(data: RootedSubgraphData) -> RootedSubgraphs:
    """Convert the output of PyG's `RootedEgoNets` or `RootedRWSubgraph`.

    PyG does not store the distances to the root, so they are computed here.

    Args:
        data: One `RootedSubgraphData`, or a `Batch` of them from a PyG loader.
    """
    for name in ("n_id", "n_sub_batch", "sub_edge_index", "e_id"):
        if getattr(data, name, None) is None:
            told = f"this data has no {name}"
            raise SubgraphError(f"{told}; apply PyG's RootedEgoNets first.")
    node, subgraph, edge = data.n_id, data.n_sub_batch, data.e_id
    root = torch.arange(int(data.num_nodes), device=node.device)
    order = torch.argsort(subgraph * root.numel() + node)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel(), device=order.device)
    ends = rank[data.sub_edge_index]
    by_edge = torch.argsort(edge, stable=True)
    by_ends = (ends[1] * order.numel() + ends[0])[by_edge]
    by_all = by_edge[torch.argsort(by_ends, stable=True)]
    node, subgraph, ends = node[order], subgraph[order], ends[:, by_all]
    centroid = (node == root[subgraph]).nonzero().flatten()
    hop = hops_to_root(ends, centroid, node.numel(), max_hops=node.numel())
    sizes = root.numel(), int(data.num_edges)
    return RootedSubgraphs(root, node, subgraph, hop, ends, edge[by_all], *sizes)
