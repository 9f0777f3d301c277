import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets, SubgraphDrop
from gnnak.graphs import GraphStore
from gnnak.graphs.adjacency import components
from gnnak.loading.items import tensors_of
from gnnak.sampling import drop as sampling_drop
from gnnak.sampling import plan as sampling_plan
from gnnak.sampling.drop import cache_plans, sample_egonets
from gnnak.sampling.plan import pair_distances
from gnnak.subgraphs.cached import cache_subgraphs
from gnnak.subgraphs.groups import group
from tests.strategies import graphs

STRATEGIES = ["random", "farthest", "min-set-cover"]


def store_of(parts) -> GraphStore:
    edges = [edge_index for edge_index, _ in parts]
    return GraphStore(
        torch.tensor([num_nodes for _, num_nodes in parts]),
        torch.tensor([edge_index.size(1) for edge_index in edges]),
        torch.cat(edges, dim=1),
    )


def near_rows(plan):
    rows = zip(plan.near.start.tolist(), plan.near.count.tolist(), strict=True)
    return [plan.near.place[start : start + count].tolist() for start, count in rows]


def assert_same(plan, made):
    """Compare two plans; their distances may be stored in different tables."""
    assert plan.num_components == made.num_components
    assert plan.largest >= made.largest
    assert torch.equal(plan.component, made.component)
    assert torch.equal(plan.held, made.held)
    for name in ("ptr", "order"):
        one, other = (getattr(p.by_component, name) for p in (plan, made))
        assert torch.equal(one, other)
    assert near_rows(plan) == near_rows(made)
    assert (plan.distances is None) == (made.distances is None)
    if plan.distances is not None:
        first, second = (made.component[:, None] == made.component).nonzero().t()
        told = plan.distances.between(first, second)
        assert torch.equal(told, made.distances.between(first, second))
        assert torch.equal(plan.distances.place, made.distances.place)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60, deadline=None)
@given(st.lists(graphs(max_nodes=7), min_size=1, max_size=5), st.data())
def test_cached_plan_equals_the_plan_of_every_batch(strategy, parts, data):
    store, drop = store_of(parts), SubgraphDrop(strategy, 2)
    cached = cache_subgraphs(store, EgoNets(data.draw(st.integers(0, 2))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling_drop, "CHUNK", data.draw(st.sampled_from([40, 2**22])))
        plans = cache_plans(cached, drop)
    some = st.lists(st.integers(0, len(parts) - 1), min_size=1, max_size=6)
    positions = torch.tensor(data.draw(some))
    subs, edge_index = cached[positions], store[positions].edge_index
    plan, made = plans[positions], drop.plan(subs, edge_index)
    assert_same(plan, made)
    masks = [
        drop.sample_mask(subs, each, torch.Generator().manual_seed(1))
        for each in (plan, made)
    ]
    assert torch.equal(*masks)


def test_cached_plan_of_a_small_graph_at_the_end_serves_a_batch_that_begins_with_it():
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]), 3
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), 5
    alone = torch.empty(2, 0, dtype=torch.long), 1
    drop, positions = SubgraphDrop("farthest", 1), torch.tensor([2, 0, 1])
    cached = cache_subgraphs(store_of([triangle, path, alone]), EgoNets(1))
    plan = cache_plans(cached, drop)[positions]
    # The triangle is covered after one step, while the path is not.
    sampled = drop.sample_mask(
        cached[positions], plan, torch.Generator().manual_seed(0)
    )
    assert sampled[0]
    assert sampled[1:4].sum() == 1
    assert sampled[4:].sum() >= 2


def test_cached_plan_is_none_where_there_are_too_many_pairs():
    path = torch.tensor([[0, 1], [1, 2]]), 3
    cached = cache_subgraphs(store_of([path, path]), EgoNets(1))
    assert cache_plans(cached, SubgraphDrop("farthest"), limit=17) is None
    assert cache_plans(cached, SubgraphDrop("farthest"), limit=18) is not None
    assert cache_plans(cached, SubgraphDrop("random"), limit=17).hop is None


def test_cached_plan_of_two_paths_equals_hand_computed_values():
    parts = [(torch.tensor([[2], [0]]), 3), (torch.tensor([[0, 1], [1, 0]]), 2)]
    plans = cache_plans(
        cache_subgraphs(store_of(parts), EgoNets(1)), SubgraphDrop("farthest")
    )
    assert plans.num_components.tolist() == [2, 1]
    assert plans.sizes.tolist() == [2, 1, 2]
    assert plans.largest == 2
    plan = plans[[1, 0]]
    assert plan.component.tolist() == [0, 0, 1, 2, 1]
    assert plan.by_component.ptr.tolist() == [0, 2, 4, 5]
    assert plan.by_component.order.tolist() == [0, 1, 2, 4, 3]
    assert plan.held.tolist() == [2, 2, 1, 1, 2]


@pytest.mark.parametrize("chunk", [1, 2**22])
def test_cached_plans_have_no_distances_if_one_component_is_large(chunk, monkeypatch):
    monkeypatch.setattr(sampling_plan, "LARGE", 3)
    monkeypatch.setattr(sampling_drop, "CHUNK", chunk)
    short = torch.tensor([[0, 1], [1, 2]]), 3
    long = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), 5
    store, drop = store_of([short, long, short]), SubgraphDrop("farthest", 1)
    cached = cache_subgraphs(store, EgoNets(1))
    plans = cache_plans(cached, drop)
    assert plans.hop is None
    for positions in ([0, 2], [1, 0]):
        subs, edge_index = cached[positions], store[positions].edge_index
        masks = [
            drop.sample_mask(subs, plan, torch.Generator().manual_seed(1))
            for plan in (plans[positions], drop.plan(subs, edge_index))
        ]
        assert torch.equal(*masks)


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


def grouped(edge_index, num_nodes):
    component, count = components(edge_index, num_nodes)
    return component, group(component, count)


@settings(max_examples=150, deadline=None)
@given(graph=graphs(max_nodes=10))
def test_pair_distances_equal_networkx(graph):
    edge_index, num_nodes = graph
    built = nx.Graph(edge_index.t().tolist())
    built.add_nodes_from(range(num_nodes))
    distances = pair_distances(edge_index, *grouped(edge_index, num_nodes))
    for node, lengths in nx.all_pairs_shortest_path_length(built):
        others = torch.tensor(sorted(lengths))
        told = distances.between(torch.full_like(others, node), others)
        assert told.tolist() == [lengths[other] for other in others.tolist()]


@settings(max_examples=100, deadline=None)
@given(graph=graphs(max_nodes=10))
def test_pair_distances_do_not_depend_on_the_chunks_of_the_search(graph):
    edge_index, num_nodes = graph
    parts = grouped(edge_index, num_nodes)
    at_once = pair_distances(edge_index, *parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling_plan, "CHUNK", 2)
        in_chunks = pair_distances(edge_index, *parts)
    assert torch.equal(at_once.hop, in_chunks.hop)
