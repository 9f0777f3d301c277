"""SubgraphDrop: train on a sample of the rooted subgraphs, evaluate on all of them."""

from gnnak.sampling.drop import SubgraphDrop, sample_subgraphs
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.sampling.random_roots import coverage, is_cover

__all__ = [
    "SampledSubgraphs",
    "SubgraphDrop",
    "coverage",
    "is_cover",
    "sample_subgraphs",
]
