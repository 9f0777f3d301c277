"""The extractors of rooted subgraphs that models and loaders accept."""

from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.walks import RandomWalks

Extractor = EgoNets | RandomWalks
"""Called as `extractor(edge_index, num_nodes, generator)`. The attribute `random` tells
whether two calls can give different subgraphs; `max_hops` is the largest value of `hop`
that they can have."""
