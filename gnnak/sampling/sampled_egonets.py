"""Sample egonets without edges, then find the edges of the sampled egonets only."""

import torch
from torch import Tensor

from gnnak.graphs.adjacency import incoming
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.induce import with_edges


def sample_egonets(
    drop: SubgraphDrop,
    extractor: EgoNets,
    edge_index: Tensor,
    num_nodes: int,
    generator: torch.Generator | None = None,
) -> SampledSubgraphs:
    """Extract and sample egonets, without computing the edges of dropped egonets.

    SubgraphDrop needs only the nodes of egonets. So egonets are extracted without edges
    and sampled, then edges are added to the sampled egonets. The result is the same as
    with `drop(extractor(edge_index, num_nodes), edge_index, generator)`.

    Args:
        drop: Samples the egonets.
        extractor: Extracts the egonets of all nodes.
        edge_index: The batch's edges, [2, e].
        num_nodes: Number of nodes, n.
        generator: Source of randomness, on the batch's device.

    >>> ring = torch.stack([torch.arange(9), torch.arange(1, 10) % 9])
    >>> ring = torch.cat([ring, ring.flip(0)], dim=1)
    >>> sample_egonets(SubgraphDrop("random", 9), EgoNets(1), ring, 9).num_edge_copies
    36
    """
    neighbors = incoming(edge_index, num_nodes)
    sampled = drop(extractor.without_edges(neighbors), edge_index, generator)
    limit = CopyLimit(extractor.copy_limit, edge_index.device)
    return with_edges(sampled, neighbors, limit)
