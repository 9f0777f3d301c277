"""`SharedInputs`: what all uplifted convs of a model share."""

from gnnak.nn.calling.edges import EdgeReader
from gnnak.nn.growth import GrowthWatch
from gnnak.sampling.shared import SharedSubgraphs


class SharedInputs:
    """What all uplifted convs of a model share.

    Args:
        subgraphs: Extracts and samples subgraphs once per forward pass.

    Attributes:
        edges: Converts edges to one form, and equal edges to the same tensor.
        growth: Warns if states grow without bound from layer to layer.
    """

    def __init__(self, subgraphs: SharedSubgraphs) -> None:
        self.subgraphs = subgraphs
        self.edges = EdgeReader()
        self.growth = GrowthWatch()
