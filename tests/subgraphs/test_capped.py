import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets
from gnnak.errors import OptionError, SizeError
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import capped, capped_egonets, copy_limit, egonets
from gnnak.subgraphs.attached import same_extractor
from gnnak.subgraphs.capped import Shuffle, capped_egonets_of
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY
from gnnak.subgraphs.rooted import TENSORS
from tests.strategies import graphs
from tests.subgraphs.selected import rows

STAR = torch.stack([torch.arange(1, 13), torch.zeros(12, dtype=torch.long)])


def sampled_by_hop(graph, num_hops, most, seed=0):
    """The sets S_0, ..., S_k of each root, by extracting 0, ..., k hops."""
    edge_index, num_nodes = graph
    sets = [[set() for _ in range(num_nodes)] for _ in range(num_hops + 1)]
    for hop in range(num_hops + 1):
        found = capped_egonets(edge_index, num_nodes, hop, most, seed=seed)
        for root, (nodes, *_) in rows(found).items():
            earlier = set().union(*(sets[h][root] for h in range(hop)))
            assert earlier <= set(nodes)
            sets[hop][root] = set(nodes) - earlier
    return sets


def check_definition(graph, num_hops, most, seed):
    edge_index, num_nodes = graph
    edges = edge_index.t().tolist()
    sets = sampled_by_hop(graph, num_hops, most, seed)
    for root in range(num_nodes):
        assert sets[0][root] == {root}
        seen = {root}
        for hop in range(1, num_hops + 1):
            before, found = sets[hop - 1][root], sets[hop][root]
            into = [(u, v) for u, v in edges if v in before]
            new = {u for u, _ in into} - seen
            assert found <= new
            assert len(found) <= most
            degrees = [sum(v == w for _, w in into) for v in before]
            if max(degrees, default=0) <= most:
                assert len(found) == min(len(new), most)
            seen |= found


@settings(max_examples=200, deadline=None)
@given(
    graph=graphs(),
    hops=st.integers(0, 3),
    most=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_capped_egonets_follow_the_definition(graph, hops, most, seed):
    check_definition(graph, hops, most, seed)
    found = capped_egonets(*graph, hops, most, seed=seed).check(*graph)
    assert found.hop_range == (0, hops)
    assert found.num_copies == 0 or 0 <= int(found.hop.min()) <= found.max_hop <= hops
    assert found.in_order


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_capped_egonets_of_corner_cases_follow_the_definition(corner_case, hops):
    graph = corner_case.edge_index, corner_case.num_nodes
    for most in (1, 2, 9):
        check_definition(graph, hops, most, seed=0)
        found = capped_egonets(*graph, hops, most).check(*graph)
        if most == 9:
            assert rows(found) == rows(egonets(*graph, hops))


def test_capped_egonets_sample_exactly_as_many_neighbours_as_allowed():
    for most in range(1, 14):
        sizes = capped_egonets(STAR, 13, 2, most).sizes.tolist()
        assert sizes == [1 + min(most, 12)] + 12 * [1]


def test_hop_is_the_distance_inside_the_egonet():
    """Node 3 is sampled at hop 2 with an edge to the root that was not sampled."""
    edges = [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (2, 1), (1, 2)]
    edge_index = torch.tensor(edges).t()
    for seed in range(20):
        first, second = (
            sets[0] for sets in sampled_by_hop((edge_index, 4), 2, 1, seed)[1:]
        )
        if first == {1} and second == {3}:
            break
    found = capped_egonets(edge_index, 4, 2, 1, torch.tensor([0]), seed)
    assert found.node.tolist() == [0, 1, 3]
    assert found.hop.tolist() == [0, 1, 1]


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), most=st.integers(1, 3), chunk=st.integers(1, 20), data=st.data())
def test_capped_egonets_depend_on_nothing_but_their_graph(graph, most, chunk, data):
    edge_index, num_nodes = graph
    wanted = rows(capped_egonets(*graph, 2, most))
    roots = data.draw(st.permutations(range(num_nodes)))[: data.draw(st.integers(0, 9))]
    some = torch.tensor(roots, dtype=torch.long)
    found = capped_egonets(*graph, 2, most, some).check(*graph)
    assert found.root.tolist() == roots
    assert rows(found) == {root: wanted[root] for root in roots}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capped, "CHUNK", chunk)
        assert rows(capped_egonets(*graph, 2, most)) == wanted
    before = torch.cat([STAR, edge_index + 13], dim=1)
    batch = capped_egonets(
        before, 13 + num_nodes, 2, most, torch.arange(13, 13 + num_nodes)
    )
    assert rows(batch) == {
        root + 13: ([v + 13 for v in node], hop, ends, [e + 12 for e in edge])
        for root, (node, hop, ends, edge) in wanted.items()
    }


def test_every_neighbour_is_sampled_equally_often():
    """Of 12 nodes, 4 are sampled; with 600 seeds, each is expected 200 times."""
    # In the tree, nodes 1 to 4 propose three nodes each.
    tree = [[*range(1, 17)], [0] * 4 + [1 + i // 3 for i in range(12)]]
    for edge_index, hops, certain in ((STAR, 1, 1), (torch.tensor(tree), 2, 5)):
        count, samples = torch.zeros(17), set()
        for seed in range(600):
            root = torch.tensor([0])
            found = capped_egonets(edge_index, 17, hops, 4, root, seed).node
            count[found] += 1
            samples.add(tuple(found.tolist()))
        assert (count[:certain] == 600).all()
        drawn = count[certain : certain + 12]
        assert 150 < drawn.min() < drawn.max() < 250
        assert len(samples) > 20


@pytest.mark.parametrize("bits", [1, 2, 5, 32, 62])
def test_shuffle_permutes_and_can_be_inverted(bits):
    shuffle, size = Shuffle("3", bits), min(2**bits, 1000)
    values = torch.arange(size)
    moved = shuffle(values)
    assert 0 <= int(moved.min()) <= int(moved.max()) < 2**bits
    assert moved.unique().numel() == size
    assert torch.equal(shuffle.inverse(moved), values)
    if bits < 62:
        assert torch.equal(shuffle(values - 2**bits), moved)


def test_capped_egonets_follow_few_edges_of_a_hub(monkeypatch):
    size, looked_at = 20_000, []
    ranges = capped.ragged_ranges

    def counting(start, count):
        looked_at.append(int(count.sum()))
        return ranges(start, count)

    monkeypatch.setattr(capped, "ragged_ranges", counting)
    leaf = torch.arange(1, size)
    star = torch.stack([leaf, torch.zeros_like(leaf)])
    neighbors = incoming(torch.cat([star, star.flip(0)], dim=1), size)
    root = torch.arange(100, 110)
    found = capped_egonets_of(root, neighbors, 2, 5, 0, None).node
    # Each root finds the hub, and 5 of the other leaves; one of them may be the root.
    assert 60 <= found.numel() <= 70
    assert sum(looked_at) == 10 + 50


def test_egonets_with_a_cap_are_random_only_without_a_seed():
    fixed, free = EgoNets(1, 4), EgoNets(1, max_neighbors=4, seed=None)
    assert (fixed.random, free.random, EgoNets(1, seed=None).random) == (
        False,
        True,
        False,
    )
    assert repr(fixed) == "EgoNets(num_hops=1, max_neighbors=4)"
    assert repr(free) == "EgoNets(num_hops=1, max_neighbors=4, seed=None)"
    assert repr(EgoNets(1, copy_limit=9)) == "EgoNets(num_hops=1)"

    def nodes(extractor, seed):
        return extractor(STAR, 13, torch.Generator().manual_seed(seed)).node.tolist()

    assert (
        nodes(fixed, 0)
        == nodes(fixed, 1)
        == capped_egonets(STAR, 13, 1, 4).node.tolist()
    )
    assert nodes(free, 0) == nodes(free, 0)
    assert len({tuple(nodes(free, seed)) for seed in range(9)}) > 1


def test_caps_and_seeds_make_different_extractors():
    one = EgoNets(2, 5, seed=1)
    assert same_extractor(one, EgoNets(2, 5, seed=1, copy_limit=7))
    for other in (
        EgoNets(2),
        EgoNets(2, 6, seed=1),
        EgoNets(2, 5),
        EgoNets(1, 5, seed=1),
    ):
        assert not same_extractor(one, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_neighbors": 0}, "max_neighbors is 0; give a whole number of at least 1"),
        ({"max_neighbors": 2.5}, "max_neighbors is 2.5"),
        ({"max_neighbors": 2, "seed": -1}, "seed is -1; give a whole number of at"),
    ],
)
def test_wrong_caps_are_named(options, message):
    with pytest.raises(OptionError, match=message):
        EgoNets(1, **options)
    with pytest.raises(OptionError, match=message):
        capped_egonets(STAR, 13, 1, **options)


def test_capped_egonets_are_refused_from_an_estimate_before_memory_is_spent(
    monkeypatch,
):
    with pytest.raises(
        SizeError, match=r"node copies .* lower max_neighbors, num_hops or"
    ):
        capped_egonets(STAR, 13, 1, 2, copy_limit=10)
    assert capped_egonets(STAR, 13, 1, 2, copy_limit=17).num_copies == 15
    monkeypatch.setattr(copy_limit, "UNCHECKED", 0)
    monkeypatch.setattr(copy_limit, "free_bytes", lambda _: 10_000 * BYTES_PER_COPY)
    ring = torch.stack([torch.arange(40_000), torch.arange(1, 40_001) % 40_000])
    monkeypatch.setattr(capped, "CHUNK", 10**9)
    with pytest.raises(SizeError, match="about 120,000 node copies"):
        EgoNets(2, 3)(ring, 40_000)


def test_all_fields_of_capped_egonets_are_those_of_egonets_if_nothing_is_capped():
    edge_index = torch.cat([STAR, STAR.flip(0)], dim=1)
    found, wanted = capped_egonets(edge_index, 13, 2, 12), egonets(edge_index, 13, 2)
    for name in TENSORS:
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name
    assert found.in_order
    assert torch.equal(found.centroid, wanted.centroid)
