"""Every strategy covers all nodes, samples no root twice, and terminates."""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets, RandomWalks, SubgraphDrop
from gnnak.datasets.cache import find_file
from gnnak.errors import CoverageError, GraphError, OptionError
from gnnak.graphs import read_npz
from gnnak.sampling import (
    coverage,
    greedy,
    is_cover,
    random_roots,
    sample_subgraphs,
)
from gnnak.sampling import plan as plan_module
from gnnak.subgraphs.rooted import TENSORS, RootedSubgraphs
from gnnak.testing import small_graphs
from tests.strategies import graphs

STRATEGIES = ["random", "farthest", "min-set-cover"]
RULES = [
    *({"strategy": strategy} for strategy in STRATEGIES),
    {"strategy": "farthest", "ties": "lowest"},
    {"strategy": "min-set-cover", "ties": "lowest"},
    {"strategy": "random", "share": 0.3},
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ring(size: int) -> torch.Tensor:
    once = torch.stack([torch.arange(size), torch.arange(1, size + 1) % size])
    return torch.cat([once, once.flip(0)], dim=1)


def assert_covers(drop, subs, edge_index, num_nodes, seed=0):
    sampled = drop.sample_mask(subs, drop.plan(subs, edge_index), seeded(seed))
    assert sampled.dtype == torch.bool
    assert sampled.shape == (num_nodes,)
    assert is_cover(subs, num_nodes, sampled, drop.min_coverage)
    few = drop(subs, edge_index, seeded(seed))
    few.check(edge_index, num_nodes)
    assert few.root.tolist() == subs.root[sampled].tolist()
    assert few.root.unique().numel() == few.num_subgraphs


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=200, deadline=None)
@given(graph=graphs(max_nodes=10), num_hops=st.integers(0, 3), wanted=st.integers(1, 9))
def test_subgraph_drop_covers_every_graph(rule, graph, num_hops, wanted):
    drop = SubgraphDrop(**rule, min_coverage=wanted)
    assert_covers(drop, EgoNets(num_hops)(*graph), *graph)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=100, deadline=None)
@given(graph=graphs(max_nodes=10), wanted=st.integers(1, 5), seed=st.integers(0, 99))
def test_subgraph_drop_covers_walk_subgraphs(rule, graph, wanted, seed):
    """Membership of walk subgraphs is not symmetric: j in Sub[i], i not in Sub[j]."""
    walks = RandomWalks(length=2, repeats=1)(*graph, seeded(seed))
    drop = SubgraphDrop(**rule, min_coverage=wanted)
    assert_covers(drop, walks, *graph, seed)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("wanted", [1, 3, 1000])
def test_subgraph_drop_covers_corner_cases(rule, wanted, corner_case):
    graph = corner_case.edge_index, corner_case.num_nodes
    for num_hops in (0, 1, 3):
        drop = SubgraphDrop(**rule, min_coverage=wanted)
        assert_covers(drop, EgoNets(num_hops)(*graph), *graph)


@pytest.mark.parametrize("rule", RULES)
def test_subgraph_drop_uses_its_generator(rule):
    edge_index, drop = ring(40), SubgraphDrop(**rule, min_coverage=2)
    subs = EgoNets(2)(edge_index, 40)
    roots = [
        drop(subs, edge_index, seeded(seed)).root.tolist() for seed in (1, 1, 2, 3)
    ]
    assert roots[0] == roots[1]
    assert roots[0] != roots[2] or roots[0] != roots[3]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_subgraph_drop_samples_a_fraction_of_a_long_ring(strategy):
    edge_index = ring(60)
    subs = EgoNets(2)(edge_index, 60)
    few = SubgraphDrop(strategy, 1)(subs, edge_index, seeded())
    assert 12 <= few.num_subgraphs < 45


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_subgraph_drop_covers_each_graph_of_a_batch_separately(strategy):
    edge_index = torch.cat([ring(10), ring(12) + 10, ring(5) + 22], dim=1)
    subs = EgoNets(5)(edge_index, 27)
    few = SubgraphDrop(strategy, 1)(subs, edge_index, seeded())
    in_each = [int(((few.root >= a) & (few.root < b)).sum()) for a, b in
               ((0, 10), (10, 22), (22, 27))]  # fmt: skip
    assert in_each[0] == in_each[2] == 1
    assert in_each[1] >= 1


def test_random_samples_a_prefix_of_the_random_order():
    """The literal loop: roots in random order until all nodes are covered."""
    edge_index, wanted = ring(30), 2
    subs = EgoNets(1)(edge_index, 30)
    drop = SubgraphDrop("random", wanted)
    sampled = drop.sample_mask(subs, drop.plan(subs, edge_index), seeded(5))
    place = torch.randperm(30, generator=seeded(5))
    order, literal = torch.argsort(place).tolist(), torch.zeros(30, dtype=torch.bool)
    for root in order:
        literal[root] = True
        if is_cover(subs, 30, literal, wanted):
            break
    assert sampled.tolist() == literal.tolist()


def orders(subs, edge_index, strategy, wanted, seed, ties="random"):
    """The roots of one component in the order they were sampled."""
    chosen = []
    best = greedy.best_of_each

    def watching(*args):
        picked = best(*args)
        chosen.extend(picked[picked >= 0].tolist())
        return picked

    drop = SubgraphDrop(strategy, wanted, ties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy, "best_of_each", watching)
        sampled = drop.sample_mask(subs, drop.plan(subs, edge_index), seeded(seed))
    assert sorted(chosen) == sampled.nonzero().flatten().tolist()
    return chosen


def connected(seed: int, size: int = 14) -> tuple[torch.Tensor, nx.Graph]:
    graph = nx.random_labeled_tree(size, seed=seed)
    graph.add_edges_from([(0, size // 2), (1, size - 1)])
    once = torch.tensor(list(graph.edges)).t()
    return torch.cat([once, once.flip(0)], dim=1), graph


@pytest.mark.parametrize("ties", ["random", "lowest"])
@pytest.mark.parametrize("seed", range(8))
def test_farthest_samples_a_farthest_root_every_time(seed, ties):
    """The literal rule, step by step, with networkx's distances."""
    edge_index, graph = connected(seed)
    subs, far = (
        EgoNets(2)(edge_index, 14),
        dict(nx.all_pairs_shortest_path_length(graph)),
    )
    chosen = orders(subs, edge_index, "farthest", 2, seed, ties)
    for step in range(1, len(chosen)):
        sampled = chosen[:step]
        nearest = {
            v: min(far[v][root] for root in sampled) for v in set(graph) - set(sampled)
        }
        best = [v for v in nearest if nearest[v] == max(nearest.values())]
        assert chosen[step] in (best if ties == "random" else [min(best)])
        mask = torch.zeros(14, dtype=torch.bool)
        mask[sampled] = True
        assert not is_cover(subs, 14, mask, 2)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("wanted", [1, 2, 3])
@pytest.mark.parametrize("ties", ["random", "lowest"])
def test_set_cover_samples_the_most_least_covered_nodes_every_time(seed, wanted, ties):
    """The literal rule, step by step: most nodes of those covered least often."""
    edge_index, graph = connected(seed)
    subs = EgoNets(2)(edge_index, 14)
    members = {v: set(nx.ego_graph(graph, v, 2)) for v in graph}
    need = {v: min(wanted, sum(v in m for m in members.values())) for v in graph}
    chosen = orders(subs, edge_index, "min-set-cover", wanted, seed, ties)
    for step in range(1, len(chosen)):
        sampled = chosen[:step]
        count = {v: sum(v in members[root] for root in sampled) for v in graph}
        lacking = {v: count[v] for v in graph if count[v] < need[v]}
        least = {v for v, times in lacking.items() if times == min(lacking.values())}
        gain = {v: len(members[v] & least) for v in set(graph) - set(sampled)}
        best = [v for v in gain if gain[v] == max(gain.values())]
        assert chosen[step] in (best if ties == "random" else [min(best)])


PATH_ORDERS = {
    0: [0, 6, 3],
    1: [1, 6, 3],
    2: [2, 6, 0, 4],
    3: [3, 0, 6],
    4: [4, 0, 2, 6],
    5: [5, 0, 2],
    6: [6, 0, 3],
}
"""The roots of a path of 7 nodes that farthest sampling with the lowest node number in
ties samples, by first root: 1-hop egonets, R = 1. After 1 and 6, the nodes 3 and 4 are
equally far."""
STAR_ORDERS = {
    0: [0, 1, 2],
    1: [1, 2, 3],
    2: [2, 1, 3],
    3: [3, 1, 2],
    4: [4, 1, 2],
    5: [5, 1, 2],
}
"""The same for a star with hub 0 and five leaves: 2-hop egonets, R = 3."""


@pytest.mark.parametrize(
    ("name", "num_hops", "wanted", "expected"),
    [("path", 1, 1, PATH_ORDERS), ("star", 2, 3, STAR_ORDERS)],
)
def test_farthest_with_lowest_ties_samples_hand_computed_roots(
    name, num_hops, wanted, expected
):
    size = len(expected)
    at = torch.arange(size - 1)
    once = torch.stack([at if name == "path" else torch.zeros_like(at), at + 1])
    edge_index = torch.cat([once, once.flip(0)], dim=1)
    subs, found = EgoNets(num_hops)(edge_index, size), {}
    for seed in range(60):
        order = orders(subs, edge_index, "farthest", wanted, seed, "lowest")
        found[order[0]] = order
    assert found == expected


def test_farthest_with_lowest_ties_samples_the_published_share_of_zinc():
    path = find_file("zinc12k.npz", None)
    if path is None:
        pytest.skip("needs zinc12k.npz in GNNAK_DATA")
    batch = read_npz(path).store[slice(500)]
    subs = EgoNets(3)(batch.edge_index, batch.num_nodes)
    published = {1: 0.190, 2: 0.405, 3: 0.665, 5: 0.936}
    for wanted, share in published.items():
        drop = SubgraphDrop("farthest", wanted, ties="lowest")
        few = drop(subs, batch.edge_index, seeded())
        assert few.num_subgraphs / batch.num_nodes == pytest.approx(share, abs=0.02)


def assert_exact_share(edge_index, num_nodes, components, share):
    """Each component has `int(share * size)` sampled roots, which cover it."""
    subs = EgoNets(2)(edge_index, num_nodes)
    drop = SubgraphDrop("random", 1, share=share)
    plan = drop.plan(subs, edge_index)
    sampled = drop.sample_mask(subs, plan, seeded())
    assert is_cover(subs, num_nodes, sampled, 1)
    of_each = torch.bincount(plan.component[sampled], minlength=len(components))
    assert of_each.tolist() == [int(share * size) for size in components]


@pytest.mark.parametrize("checked", [1, random_roots.CHECKED])
@pytest.mark.parametrize("share", [0.35, 0.4, 0.9])
def test_random_with_a_share_samples_exactly_this_share_if_it_covers(
    share, checked, monkeypatch
):
    """Whether samples are checked one by one, or many at a time."""
    monkeypatch.setattr(random_roots, "CHECKED", checked)
    rings = torch.cat([ring(20), ring(14) + 20, ring(9) + 34], dim=1)
    assert_exact_share(rings, 43, (20, 14, 9), share)


def test_random_with_a_share_finds_all_covering_samples_equally_often():
    """Four of the six pairs of nodes of a path 0-1-2-3 cover it with 1-hop egonets."""
    count, path = 2000, torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    first = 4 * torch.arange(count)
    edge_index = (path[:, None] + first[:, None]).flatten(1)
    subs = EgoNets(1)(edge_index, 4 * count)
    drop = SubgraphDrop("random", 1, share=0.5)
    pairs = drop(subs, edge_index, seeded()).root.view(count, 2) - first[:, None]
    found, times = pairs.unique(dim=0, return_counts=True)
    assert found.tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
    assert all(abs(n - count / 4) < 100 for n in times.tolist())


@pytest.mark.parametrize("share", [0, 0.01, 0.1])
def test_random_with_a_share_that_cannot_cover_samples_more(share):
    """A ring of 40 needs 8 roots or more; the small ring is covered by one."""
    both = torch.cat([ring(40), ring(4) + 40], dim=1)
    subs = EgoNets(2)(both, 44)
    few = SubgraphDrop("random", 1, share=share)(subs, both, seeded())
    assert int((few.root < 40).sum()) >= 8
    assert int((few.root >= 40).sum()) >= 1
    assert (few.covered >= 1).all()


def test_random_with_a_share_of_no_root_samples_in_random_order(monkeypatch):
    """Components of 4 nodes have no share of 0.2, so they are not tried in vain."""
    monkeypatch.setattr(random_roots, "_sample_each", None)
    both = torch.cat([ring(4), ring(4) + 4], dim=1)
    subs = EgoNets(1)(both, 8)
    shared, plain = SubgraphDrop("random", 2, share=0.2), SubgraphDrop("random", 2)
    masks = [drop.sample_mask(subs, drop.plan(subs, both), seeded())
             for drop in (shared, plain)]  # fmt: skip
    assert torch.equal(*masks)


@pytest.mark.parametrize(
    ("strategy", "ignored"),
    [
        ("random", {"ties": "lowest"}),
        ("farthest", {"share": 0.2}),
        ("min-set-cover", {"share": 0.2}),
    ],
)
def test_strategies_ignore_options_of_other_strategies(strategy, ignored):
    edge_index = ring(20)
    subs = EgoNets(2)(edge_index, 20)
    roots = [
        SubgraphDrop(strategy, 2, **options)(subs, edge_index, seeded()).root.tolist()
        for options in (ignored, {})
    ]
    assert roots[0] == roots[1]


def test_repr_shows_options_that_are_not_at_their_default():
    """States of loaders have this text; those of older versions must compare equal."""
    assert repr(SubgraphDrop()) == "SubgraphDrop(strategy='farthest', min_coverage=3)"
    shown = {
        repr(
            SubgraphDrop("random", 3, share=0.2)
        ): "'random', min_coverage=3, share=0.2",
        repr(SubgraphDrop("farthest", 1, "lowest")): (
            "'farthest', min_coverage=1, ties='lowest'"
        ),
    }
    for text, options in shown.items():
        assert text == f"SubgraphDrop(strategy={options})"


@pytest.mark.parametrize("strategy", ["farthest", "min-set-cover"])
def test_greedy_strategies_start_with_a_random_root(strategy):
    edge_index, _ = connected(0)
    subs = EgoNets(2)(edge_index, 14)
    first = {orders(subs, edge_index, strategy, 1, seed)[0] for seed in range(40)}
    assert len(first) >= 8


def test_set_cover_samples_the_hub_of_a_star():
    star = small_graphs()["star"].edge_index
    subs = EgoNets(1)(star, 6)
    for seed in range(5):
        sampled = SubgraphDrop("min-set-cover", 1)(
            subs, star, seeded(seed)
        ).root.tolist()
        assert 0 in sampled
        assert len(sampled) <= 2


@pytest.mark.heavy
def test_set_cover_samples_no_more_than_random_on_average():
    generator = seeded(3)
    shares = {"random": 0.0, "min-set-cover": 0.0, "farthest": 0.0}
    for _ in range(30):
        once = torch.randint(20, (2, 24), generator=generator)
        edge_index = torch.cat([once, once.flip(0)], dim=1)
        subs = EgoNets(2)(edge_index, 20)
        for strategy in shares:
            for wanted in (1, 2, 3):
                drop = SubgraphDrop(strategy, wanted)
                shares[strategy] += drop(subs, edge_index, generator).num_subgraphs
    assert shares["min-set-cover"] <= shares["random"]


def test_sample_subgraphs_of_all_is_the_same_record():
    edge_index = ring(7)
    subs = EgoNets(2)(edge_index, 7)
    whole = sample_subgraphs(subs, edge_index, torch.ones(7, dtype=torch.bool))
    for name in TENSORS:
        assert torch.equal(getattr(whole, name), getattr(subs, name))
    assert whole.filling.node.tolist() == whole.filling.subgraph.tolist()
    assert torch.equal(whole.held, whole.covered)


def test_coverage_of_a_path_equals_hand_computed_values():
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    subs = EgoNets(1)(path, 4)
    assert coverage(subs, 4).tolist() == [2, 3, 2, 1]
    sampled = torch.tensor([True, False, False, True])
    assert coverage(subs, 4, sampled).tolist() == [1, 1, 0, 1]
    assert not is_cover(subs, 4, sampled, 1)
    assert is_cover(subs, 4, torch.ones(4, dtype=torch.bool), 99)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_subgraph_drop_plan_is_used_and_changes_nothing(strategy):
    edge_index, drop = ring(20), SubgraphDrop(strategy, 2)
    subs = EgoNets(2)(edge_index, 20)
    plan = drop.plan(subs, edge_index)
    with_plan = drop(subs, edge_index, seeded(4), plan)
    assert with_plan.root.tolist() == drop(subs, edge_index, seeded(4)).root.tolist()


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"strategy": "nearest"}, "use one of: random, farthest, min-set-cover"),
            ({"min_coverage": 0}, "min_coverage is 0; give a whole number of at least"),
            ({"min_coverage": 1.5}, "min_coverage is 1.5"),
            ({"ties": "highest"}, "use one of: random, lowest"),
            ({"strategy": "random", "share": 1}, "share is 1; give a number with"),
            ({"share": 1.5}, "share is 1.5; give a number with"),
        ],
    )
    def test_wrong_option_says_what_is_wanted(self, options, message):
        with pytest.raises(OptionError, match=message):
            SubgraphDrop(**options)

    def test_graph_of_another_batch_is_named(self):
        subs = EgoNets(1)(ring(5), 5)
        with pytest.raises(GraphError, match="names node 6"):
            SubgraphDrop()(subs, ring(7))

    def test_dropping_twice_is_refused(self):
        subs, drop = EgoNets(1)(ring(9), 9), SubgraphDrop("random", 1)
        with pytest.raises(CoverageError, match="needs a subgraph of every node"):
            drop(drop(subs, ring(9)), ring(9))

    def test_too_many_pairs_for_farthest_are_named(self, monkeypatch):
        monkeypatch.setattr(plan_module, "MAX_PAIRS", 80)
        subs = EgoNets(1)(ring(9), 9)
        with pytest.raises(CoverageError, match=r"81 pairs of nodes.*'min-set-cover'"):
            SubgraphDrop("farthest")(subs, ring(9))

    def test_a_sample_that_leaves_a_node_out_is_named(self):
        subs, sampled = EgoNets(1)(ring(9), 9), torch.zeros(9, dtype=torch.bool)
        sampled[0] = True
        with pytest.raises(CoverageError, match="node 2 is in none of the sampled"):
            sample_subgraphs(subs, ring(9), sampled)

    def test_a_plan_of_another_batch_or_strategy_is_named(self):
        subs, drop = EgoNets(1)(ring(9), 9), SubgraphDrop("farthest", 1)
        other = drop.plan(EgoNets(1)(ring(12), 12), ring(12))
        with pytest.raises(CoverageError, match="a batch of 12 nodes, this one has 9"):
            drop(subs, ring(9), plan=other)
        without_distances = SubgraphDrop("random", 1).plan(subs, ring(9))
        with pytest.raises(CoverageError, match="the plan has no distances"):
            drop(subs, ring(9), plan=without_distances)


GREEDY = ["farthest", "min-set-cover"]


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
        patch.setattr(plan_module, "LARGE", large)
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
    monkeypatch.setattr(plan_module, "LARGE", 0)
    monkeypatch.setattr(greedy, "sample_one_by_one", None)
    for strategy in GREEDY:
        drop = SubgraphDrop(strategy, 1)
        made = drop.plan(subs, none)
        assert (made.distances is None) == (strategy == "min-set-cover")
        assert is_cover(subs, 2, drop.sample_mask(subs, made, seeded(0)), 1)
