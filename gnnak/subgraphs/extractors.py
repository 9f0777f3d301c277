"""What makes rooted subgraphs: the transforms a model can be given."""

from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.walks import RandomWalks

Extractor = EgoNets | RandomWalks
"""Called as `extractor(edge_index, num_nodes, generator)`; `random` says whether the
subgraphs differ from call to call, `max_hops` bounds their hops."""
