"""Sampling with a heap samples the same subgraphs as the plain loop."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets, RandomWalks, SubgraphDrop
from gnnak.sampling import greedy, is_cover, plan
from gnnak.subgraphs.rooted import RootedSubgraphs
from tests.strategies import graphs

GREEDY = ["farthest", "min-set-cover"]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def star(num_nodes: int) -> torch.Tensor:
    leaf = torch.arange(1, num_nodes)
    once = torch.stack([leaf, torch.zeros_like(leaf)])
    return torch.cat([once, once.flip(0)], dim=1)


def path(num_nodes: int) -> torch.Tensor:
    node = torch.arange(num_nodes - 1)
    once = torch.stack([node, node + 1])
    return torch.cat([once, once.flip(0)], dim=1)


def sampled_by(drop, subs, edge_index, seed, large) -> torch.Tensor:
    """The sample, where components with more than `large` nodes count as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LARGE", large)
        made = drop.plan(subs, edge_index)
        return drop.sample_mask(subs, made, seeded(seed))


@pytest.mark.parametrize("strategy", GREEDY)
@pytest.mark.parametrize("ties", ["random", "lowest"])
@pytest.mark.parametrize("kind", ["egonets", "walks"])
@settings(max_examples=150, deadline=None)
@given(
    graph=graphs(max_nodes=14),
    size=st.integers(0, 3),
    wanted=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_heap_samples_what_the_plain_loop_samples(
    strategy, ties, kind, graph, size, wanted, seed
):
    extract = EgoNets(size) if kind == "egonets" else RandomWalks(size, 2)
    subs = extract(*graph, seeded(seed))
    drop = SubgraphDrop(strategy, wanted, ties)
    plain, by_heap = (
        sampled_by(drop, subs, graph[0], seed, large) for large in (999, 0)
    )
    assert torch.equal(plain, by_heap)


@pytest.mark.parametrize("strategy", GREEDY)
@pytest.mark.parametrize("ties", ["random", "lowest"])
@pytest.mark.parametrize(("edges", "num_hops"), [(star, 1), (star, 2), (path, 5)])
def test_heap_samples_what_the_plain_loop_samples_in_a_larger_graph(
    strategy, ties, edges, num_hops
):
    edge_index = edges(300)
    subs = EgoNets(num_hops)(edge_index, 300)
    drop = SubgraphDrop(strategy, 3, ties)
    plain, by_heap = (
        sampled_by(drop, subs, edge_index, 1, large) for large in (999, 256)
    )
    assert torch.equal(plain, by_heap)


@pytest.mark.parametrize("strategy", GREEDY)
@pytest.mark.parametrize("edges", [star, path])
def test_greedy_strategies_cover_graphs_of_10_000_nodes(strategy, edges):
    """Time and memory are far from quadratic in the number of nodes."""
    edge_index = edges(10_000)
    subs = EgoNets(1)(edge_index, 10_000)
    drop = SubgraphDrop(strategy, 2)
    made = drop.plan(subs, edge_index)
    assert made.distances is None
    sampled = drop.sample_mask(subs, made, seeded(0))
    assert is_cover(subs, 10_000, sampled, 2)


def test_the_heap_is_not_used_for_subgraphs_of_several_components(monkeypatch):
    """Both subgraphs contain both nodes, but no edge joins the nodes."""
    pair = torch.tensor([0, 1, 0, 1])
    none = torch.empty(2, 0, dtype=torch.long)
    subs = RootedSubgraphs(
        torch.arange(2), pair, pair.sort().values, pair, none, none[0], 2, 0
    )
    monkeypatch.setattr(plan, "LARGE", 0)
    monkeypatch.setattr(greedy, "sample_one_by_one", None)
    for strategy in GREEDY:
        drop = SubgraphDrop(strategy, 1)
        made = drop.plan(subs, none)
        assert (made.distances is None) == (strategy == "min-set-cover")
        assert is_cover(subs, 2, drop.sample_mask(subs, made, seeded(0)), 1)
