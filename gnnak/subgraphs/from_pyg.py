"""Convert the rooted subgraphs of PyG's transforms to `RootedSubgraphs`."""

import torch
from torch_geometric.transforms.rooted_subgraph import RootedSubgraphData

from gnnak.errors import SubgraphError
from gnnak.subgraphs.distances import hops_to_root
from gnnak.subgraphs.rooted import RootedSubgraphs


def rooted_from_pyg(data: RootedSubgraphData) -> RootedSubgraphs:
    """Convert the output of PyG's `RootedEgoNets` or `RootedRWSubgraph`.

    PyG does not store the distances to the root, so they are computed here.

    Args:
        data: One `RootedSubgraphData`, or a `Batch` of them from a PyG loader.
    """
    for name in ("n_id", "n_sub_batch", "sub_edge_index", "e_id"):
        if getattr(data, name, None) is None:
            raise SubgraphError(
                f"this data has no {name}; apply PyG's RootedEgoNets first."
            )
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
    return RootedSubgraphs(
        root,
        node,
        subgraph,
        hop,
        ends,
        edge[by_all],
        num_nodes=root.numel(),
        num_edges=int(data.num_edges),
    )
