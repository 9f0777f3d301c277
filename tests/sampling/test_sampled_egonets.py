import pytest
import torch
from hypothesis import given

from gnnak import EgoNets, SubgraphDrop
from gnnak.loading.items import tensors_of
from gnnak.sampling.cached_plan import sample_egonets
from tests.strategies import graphs


@pytest.mark.parametrize("strategy", ["random", "farthest", "min-set-cover"])
@given(graph=graphs())
def test_sample_egonets_equals_sampling_from_whole_egonets(strategy, graph):
    edge_index, num_nodes = graph
    drop, extractor = SubgraphDrop(strategy, 2), EgoNets(2)
    late, early = (torch.Generator().manual_seed(1) for _ in range(2))
    whole = extractor(edge_index, num_nodes)
    wanted = drop(whole, edge_index, early)
    found = sample_egonets(drop, extractor, edge_index, num_nodes, late)
    for ours, theirs in zip(tensors_of(found), tensors_of(wanted), strict=True):
        assert torch.equal(ours, theirs)
    assert (found.num_nodes, found.num_edges) == (wanted.num_nodes, wanted.num_edges)
