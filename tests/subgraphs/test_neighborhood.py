from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.errors import SizeError
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import copy_limit
from gnnak.subgraphs.neighborhood import (
    Hop,
    Neighborhood,
    distinct_numbers,
    mixed,
    sample_neighborhood,
)
from tests.strategies import graphs


def search(edges, seeds, directions):
    """Literal search: return the nodes after each hop, and the edges followed."""
    found, frontier, followed = [set(seeds)], set(seeds), set()
    for step, backwards in enumerate(directions):
        if step and backwards != directions[step - 1]:
            frontier = set(found[-1])
        reached = set()
        for number, (u, v) in enumerate(edges):
            here, there = (v, u) if backwards else (u, v)
            if here in frontier:
                reached.add(there)
                followed.add(number)
        frontier = reached - found[-1]
        found.append(found[-1] | reached)
    return found, followed


def assert_equal_search(
    found: Neighborhood, scope: int, edges, wanted, wanted_edges
) -> None:
    """Compare the nodes and edges of one scope with those of a literal search."""
    inside = found.scope == scope
    assert sorted(found.node[inside].tolist()) == sorted(wanted)
    of_edge = found.scope[found.edge_index[0]] == scope
    assert sorted(found.edge[of_edge].tolist()) == sorted(wanted_edges)
    first, second = found.scope[found.edge_index]
    assert torch.equal(first, second)
    ends = found.node[found.edge_index].t().tolist()
    assert ends == [list(edges[i]) for i in found.edge.tolist()]


@settings(max_examples=60, deadline=None)
@given(
    graphs(),
    st.lists(st.booleans(), max_size=4),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_sample_neighborhood_without_a_cap_equals_a_literal_search(
    graph, directions, per_seed, induced, data
):
    edge_index, num_nodes = graph
    if not induced:
        directions = [True] * len(directions)
    edges = [tuple(pair) for pair in edge_index.t().tolist()]
    nodes = range(num_nodes)
    some = st.lists(st.sampled_from(nodes), unique=True) if num_nodes else st.just([])
    seeds = data.draw(some)
    backwards = incoming(edge_index, num_nodes)
    forwards = incoming(edge_index.flip(0), num_nodes)
    hops = [Hop(backwards if each else forwards, None) for each in directions]
    found = sample_neighborhood(
        torch.tensor(seeds, dtype=torch.long),
        backwards,
        hops,
        per_seed=per_seed,
        induced=induced,
    )
    assert found.node[: len(seeds)].tolist() == seeds
    groups = [[seed] for seed in seeds] if per_seed else [seeds]
    searches = [search(edges, group, directions) for group in groups]
    for scope, (after, followed) in enumerate(searches):
        last = after[-1]
        whole = [i for i, (u, v) in enumerate(edges) if u in last and v in last]
        assert_equal_search(found, scope, edges, last, whole if induced else followed)
    totals = [sum(len(after[i]) for after, _ in searches) for i in range(len(hops) + 1)]
    assert found.found == totals


STAR = torch.stack([torch.arange(1, 41), torch.zeros(40, dtype=torch.long)])


@pytest.mark.parametrize("most", [0, 1, 3, 39, 40, 41])
def test_a_cap_samples_that_many_distinct_neighbors_or_takes_all(most):
    star = incoming(STAR, 41)
    found = sample_neighborhood(torch.tensor([0, 5]), star, [Hop(star, most)] * 2)
    count = min(most, 40)
    assert found.edge.unique().numel() == found.edge.numel() == count
    # Node 5 is a seed, so it may be found again.
    again = int((found.node[found.edge_index[0]] == 5).sum())
    assert found.node.numel() == 2 + count - again
    assert (found.edge_index[1] == 0).all()


def test_all_subsets_of_neighbors_are_equally_likely():
    below = torch.full((30_000,), 6)
    chosen = distinct_numbers(below, 3, mixed(torch.arange(30_000)))
    counts = Counter(tuple(row) for row in chosen.sort().values.tolist())
    assert len(counts) == 20
    # The standard deviation of a count is 38.
    assert all(abs(count - 1500) < 160 for count in counts.values())


@pytest.mark.parametrize("per_seed", [True, False])
def test_a_sample_depends_on_the_random_seed_and_not_on_the_other_seeds(per_seed):
    draw = torch.Generator().manual_seed(0)
    edge_index = torch.randint(200, (2, 4000), generator=draw)
    neighbors = incoming(edge_index, 200)
    options = {"per_seed": per_seed, "induced": per_seed}

    def edges_of(seeds, seed):
        """The edges around node 7 that are two hops from it, or fewer."""
        hops = [Hop(neighbors, 4), Hop(neighbors, 4)]
        given = torch.tensor(seeds), neighbors, hops
        found = sample_neighborhood(*given, seed=seed, **options)
        if per_seed:
            of_edge = found.scope[found.edge_index[0]] == seeds.index(7)
            return set(found.edge[of_edge].tolist())
        ends = found.node[found.edge_index]
        first = ends[1] == 7
        near = ends[0][first]
        return set(found.edge[first | torch.isin(ends[1], near)].tolist())

    alone = edges_of([7], 1)
    assert alone == edges_of([3, 9, 7, 150], 1)
    assert alone != edges_of([7], 2)


def test_scopes_of_two_seeds_are_sampled_independently():
    # Seeds 0 and 1 have the neighbour 2, which has 40 neighbours.
    far = torch.stack([torch.arange(3, 43), torch.full((40,), 2)])
    edge_index = torch.cat([torch.tensor([[2, 2], [0, 1]]), far], dim=1)
    neighbors = incoming(edge_index, 43)
    hops = [Hop(neighbors, 5)] * 2
    found = sample_neighborhood(torch.tensor([0, 1]), neighbors, hops, per_seed=True)
    one, other = (found.node[found.scope == i].tolist() for i in (0, 1))
    assert set(one) - {0} != set(other) - {1}


def test_too_many_edges_are_refused_before_they_are_allocated(monkeypatch):
    monkeypatch.setattr(copy_limit, "UNCHECKED_BYTES", 0)
    monkeypatch.setattr(copy_limit, "free_bytes", lambda device: 1000)
    star = incoming(STAR, 41)
    with pytest.raises(SizeError, match=r"40 sampled edges .* lower batch_size or num"):
        sample_neighborhood(torch.tensor([0]), star, [Hop(star, None)])
