"""`Extractor`: the type of the subgraph extractors that models and loaders accept."""

from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.walks import RandomWalks

Extractor = EgoNets | RandomWalks
"""A subgraph extractor: `extractor(edge_index, num_nodes, generator)` returns a rooted
subgraph of every node. The attribute `random` is True if two calls on the same graph
can return different subgraphs; `max_hops` is the largest possible distance of a node to
the root."""
