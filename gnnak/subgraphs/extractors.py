"""`Extractor`: the classes of subgraph extractors that models and loaders accept."""

from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.walks import RandomWalks

Extractor = EgoNets | RandomWalks
"""Extracts one rooted subgraph per node, as `extractor(edge_index, num_nodes,
generator)`. The attribute `random` is True if two calls on the same graph can return
different subgraphs. The attribute `max_hops` is the largest possible distance to the
root."""
