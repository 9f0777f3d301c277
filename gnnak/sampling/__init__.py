"""SubgraphDrop: train on a sample of the rooted subgraphs, evaluate on all of them."""

from gnnak.sampling.coverage import coverage, is_cover
from gnnak.sampling.drop import SubgraphDrop, sample_subgraphs
from gnnak.sampling.estimate import SampledSubgraphs

__all__ = [
    "SampledSubgraphs",
    "SubgraphDrop",
    "coverage",
    "is_cover",
    "sample_subgraphs",
]
