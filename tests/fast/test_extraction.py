"""Extraction on a GPU, or in Triton's interpreter, against plain PyTorch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak import EgoNets, RandomWalks
from gnnak.backend import PLAIN, use_backend
from gnnak.errors import SizeError
from gnnak.graphs.adjacency import incoming
from gnnak.optional import interprets_triton
from gnnak.subgraphs import egonets
from gnnak.testing import small_graphs
from tests.gpu import needs_gpu
from tests.strategies import graphs

interpreted = pytest.mark.skipif(
    not interprets_triton(), reason="set TRITON_INTERPRET=1"
)
FIELDS = ("root", "node", "subgraph", "hop", "edge_index", "edge")
STAR = torch.tensor([[*range(1, 100)], [0] * 99])


def assert_same(one, other):
    for name in FIELDS:
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def union(parts):
    sizes = [num_nodes for _, num_nodes in parts]
    starts = [sum(sizes[:place]) for place in range(len(parts))]
    edges = [part + start for (part, _), start in zip(parts, starts, strict=True)]
    return torch.cat(edges, 1), sum(sizes)


def assert_extracted_alike(extractor, edge_index, num_nodes):
    generator = torch.Generator(edge_index.device)
    fast = extractor(edge_index, num_nodes, generator.manual_seed(0))
    fast.check()
    with use_backend(PLAIN):
        slow = extractor(edge_index, num_nodes, generator.manual_seed(0))
    assert_same(fast, slow)


@interpreted
@given(st.lists(graphs(), min_size=1, max_size=4), st.integers(0, 9))
def test_egonets_equal_those_in_plain_pytorch(parts, num_hops):
    assert_extracted_alike(EgoNets(num_hops), *union(parts))


@interpreted
@given(graphs(), st.data())
def test_egonets_of_some_roots_equal_those_in_plain_pytorch(graph, data):
    mask = data.draw(st.lists(st.booleans(), min_size=graph[1], max_size=graph[1]))
    roots = torch.tensor(mask, dtype=torch.bool)
    fast = egonets(*graph, 2, roots)
    with use_backend(PLAIN):
        assert_same(fast, egonets(*graph, 2, roots))


@interpreted
@pytest.mark.parametrize("name", small_graphs())
@pytest.mark.parametrize("extractor", [EgoNets(2), RandomWalks(3, 2)], ids=repr)
def test_subgraphs_of_corner_cases_equal_those_in_plain_pytorch(name, extractor):
    data = small_graphs()[name]
    assert_extracted_alike(extractor, data.edge_index, data.num_nodes)


@interpreted
def test_fast_reach_serves_batches_of_small_graphs_only():
    from gnnak.fast.extraction import WIDEST, fast_reach

    def found(num_nodes):
        node = torch.arange(num_nodes)
        path = torch.stack([node[:-1], node[1:]])
        neighbors = incoming(path, num_nodes)
        return fast_reach(lambda _: True, node, neighbors, 2, all_roots=True)

    assert found(WIDEST) is not NotImplemented
    assert found(WIDEST + 1) is NotImplemented


@interpreted
def test_fast_induced_edges_leaves_hubs_to_plain_pytorch():
    from gnnak.fast.extraction import fast_induced_edges

    def found(edge_index):
        node, subgraph = torch.arange(100), torch.zeros(100, dtype=torch.long)
        neighbors = incoming(edge_index, 100)
        return fast_induced_edges(lambda _: True, node, subgraph, 1, neighbors)

    assert found(STAR.flip(0)) is not NotImplemented
    assert found(STAR) is NotImplemented


@interpreted
def test_fast_extraction_respects_copy_limit():
    ring = torch.stack([torch.arange(9), torch.arange(9).roll(1)])
    assert EgoNets(1, copy_limit=27)(ring, 9).num_edge_copies == 9
    with pytest.raises(SizeError, match="at least 27 node copies and edge copies"):
        EgoNets(1, copy_limit=26)(ring, 9)
    with pytest.raises(SizeError, match=r"at least 18 node copies \(a node"):
        EgoNets(1, copy_limit=17)(ring, 9)


@needs_gpu
@pytest.mark.parametrize("num_hops", [1, 2, 5])
def test_egonets_on_a_gpu_equal_those_in_plain_pytorch(num_hops):
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 200, (50,), generator=generator).tolist()
    parts = [
        (torch.randint(size, (2, 4 * size), generator=generator), size)
        for size in sizes
    ]
    edge_index, num_nodes = union(parts)
    assert_extracted_alike(EgoNets(num_hops), edge_index.cuda(), num_nodes)
