"""SubgraphDrop: train on a few rooted subgraphs, evaluate on all."""

from gnnak.sampling.coverage import coverage, is_cover
from gnnak.sampling.drop import SubgraphDrop, keep_subgraphs
from gnnak.sampling.estimate import SampledSubgraphs

__all__ = [
    "SampledSubgraphs",
    "SubgraphDrop",
    "coverage",
    "is_cover",
    "keep_subgraphs",
]
