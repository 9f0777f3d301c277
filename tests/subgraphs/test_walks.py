import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import RandomWalks
from gnnak.errors import GnnakError, OptionError
from gnnak.subgraphs import random_walks, walk_subgraphs, walks
from gnnak.subgraphs.rooted import TENSORS
from tests.strategies import graphs


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(max_examples=150, deadline=None)
@given(
    graph=graphs(),
    length=st.integers(0, 5),
    p=st.sampled_from([1.0, 0.25]),
    q=st.sampled_from([1.0, 4.0]),
    seed=st.integers(0, 99),
)
def test_random_walks_step_along_edges_only(graph, length, p, q, seed):
    edge_index, num_nodes = graph
    start = torch.arange(num_nodes)
    visited = random_walks(edge_index, num_nodes, start, length, p, q, seeded(seed))
    assert visited.shape == (num_nodes, length + 1)
    edges = set(map(tuple, edge_index.t().tolist()))
    dead_ends = set(range(num_nodes)) - set(edge_index[1].tolist())
    for walk in visited.tolist():
        for here, there in itertools.pairwise(walk):
            stays = here == there and here in dead_ends
            assert (there, here) in edges or stays


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), repeats=st.integers(1, 3), q=st.sampled_from([1.0, 2.0]))
def test_walk_subgraphs_pass_check(graph, repeats, q):
    subs = walk_subgraphs(*graph, length=3, repeats=repeats, q=q, generator=seeded())
    subs.check(*graph)
    assert subs.num_subgraphs == graph[1]
    assert not subs.num_copies or subs.hop.min() >= 0
    assert not subs.num_copies or subs.sizes.max() <= 3 * repeats + 1


def test_walk_subgraphs_of_corner_cases_pass_check(corner_case):
    graph = corner_case.edge_index, corner_case.num_nodes
    for p, q in ((1.0, 1.0), (0.5, 2.0)):
        subs = RandomWalks(length=4, repeats=2, p=p, q=q)(*graph, seeded())
        subs.check(*graph)


def test_walk_subgraphs_mark_copies_beyond_max_hops():
    cycle = torch.stack([torch.arange(8), torch.arange(1, 9) % 8])
    subs = walk_subgraphs(cycle, 8, length=4, repeats=1, max_hops=2)
    assert subs.check(cycle, 8).hop.reshape(8, 5).eq(-1).sum(dim=1).tolist() == [2] * 8


def test_random_walks_of_one_seed_are_the_same_and_of_two_differ():
    clique = torch.combinations(torch.arange(12)).t()
    clique = torch.cat([clique, clique.flip(0)], dim=1)
    extract = RandomWalks(length=3, repeats=1)
    first, again, other = (
        extract(clique, 12, seeded(n)).node.tolist() for n in (1, 1, 2)
    )
    assert first == again != other


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), chunk=st.integers(1, 10))
def test_random_walks_do_not_depend_on_the_chunk_size(graph, chunk):
    options = {"length": 4, "repeats": 2, "p": 0.5, "q": 2.0}
    whole = walk_subgraphs(*graph, **options, generator=seeded())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "CHUNK", chunk)
        pieces = walk_subgraphs(*graph, **options, generator=seeded())
    for name in TENSORS:
        assert torch.equal(getattr(whole, name), getattr(pieces, name))


def exact_transitions(adjacency, p, q):
    """P(next = x | before = t, here = v) of walks, written out: [t, v, x]."""
    size = len(adjacency)
    chance = torch.zeros(size, size, size, dtype=torch.double)
    for t in range(size):
        for v in range(size):
            for x in range(size):
                if adjacency[v][x]:
                    bias = 1 / p if x == t else 1.0 if adjacency[t][x] else 1 / q
                    chance[t, v, x] = bias * adjacency[v][x]
    return chance / chance.sum(dim=2, keepdim=True).clamp(min=1e-300)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 1.0), (4.0, 0.5), (0.5, 3.0)])
@pytest.mark.parametrize("duplicate", [False, True])
@pytest.mark.parametrize(("high_degree", "trials"), [(64, 64), (0, 64), (0, 2)])
def test_random_walks_follow_p_and_q(p, q, duplicate, high_degree, trials, monkeypatch):
    """Chi-square of second-order transitions against the exact probabilities."""
    monkeypatch.setattr(walks, "HIGH_DEGREE", high_degree)
    monkeypatch.setattr(walks, "MAX_TRIALS", trials)
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (3, 4), (4, 0), (2, 5)]
    edges += [(0, 1)] if duplicate else []
    once = torch.tensor(edges).t()
    edge_index = torch.cat([once, once.flip(0)], dim=1)
    adjacency = torch.zeros(6, 6, dtype=torch.long)
    adjacency.index_put_((once[0], once[1]), torch.tensor(1), accumulate=True)
    adjacency = (adjacency + adjacency.t()).tolist()
    start = torch.arange(6).repeat_interleave(4000)
    visited = random_walks(edge_index, 6, start, 5, p, q, seeded(7))
    triples = visited.unfold(1, 3, 1).reshape(-1, 3)
    counts = torch.zeros(6, 6, 6, dtype=torch.double)
    counts.index_put_(tuple(triples.t()), torch.tensor(1.0).double(), accumulate=True)
    expected = exact_transitions(adjacency, p, q) * counts.sum(dim=2, keepdim=True)
    assert counts[expected == 0].sum() == 0
    seen = expected > 0
    chi_square = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
    freedom = int(seen.sum()) - int((expected.sum(dim=2) > 0).sum())
    # Five deviations above the mean of chi-square with this many degrees of freedom.
    assert chi_square < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize(
    ("option", "value"),
    [("length", -1), ("repeats", 0), ("p", 0.0), ("q", -1.0), ("p", float("nan"))],
)
def test_random_walks_with_a_wrong_option_raise_a_clear_error(option, value):
    with pytest.raises(OptionError, match=f"{option} is {value}; give"):
        RandomWalks(**{option: value})
    options = {"length": 2, "repeats": 1} | {option: value}
    with pytest.raises(OptionError, match=f"{option} is"):
        walk_subgraphs(torch.empty(2, 0).long(), 1, **options)


def test_random_walks_from_a_hub_do_not_weigh_all_its_edges(monkeypatch):
    size = 3000
    hub, leaf = torch.zeros(size - 1).long(), torch.arange(1, size)
    star = torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])])
    looked_at = []
    weight = walks.Bias.weight

    def counting(self, before, there):
        looked_at.append(there.numel())
        return weight(self, before, there)

    monkeypatch.setattr(walks.Bias, "weight", counting)
    random_walks(star, size, torch.arange(size), 4, 0.5, 2.0, seeded())
    assert sum(looked_at) < 100 * size


def test_walk_subgraphs_use_all_repeats():
    clique = torch.combinations(torch.arange(30)).t()
    clique = torch.cat([clique, clique.flip(0)], dim=1)
    once, often = (
        walk_subgraphs(clique, 30, length=2, repeats=repeats, generator=seeded())
        for repeats in (1, 6)
    )
    assert once.sizes.max() <= 3
    assert often.sizes.double().mean() > 7


@pytest.mark.parametrize(
    ("start", "p", "message"),
    [([9], 1.0, "start must contain nodes"), ([0], 0.0, "p is 0.0; give a positive")],
)
def test_random_walks_with_wrong_input_raise_a_clear_error(start, p, message):
    path = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(GnnakError, match=message):
        random_walks(path, 2, torch.tensor(start), 2, p)
