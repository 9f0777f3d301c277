from functools import cache, partial

import networkx as nx
import pytest
import torch

from gnnak.errors import OptionError
from gnnak.models import ModelOptions, build_model
from gnnak.models.bases import BASES
from gnnak.models.factory import SUFFIXES
from gnnak.models.options import FamilyOptions, SubgraphOptions
from gnnak.nn import Categorical
from gnnak.wl import partition
from gnnak.wl.bounds import BOUNDS, MEMBER_BOUNDS, bound_of, find_bound, has_bound
from gnnak.wl.families import (
    SEPARATING,
    connected_graphs,
    cycle_and_two,
    family,
    rook,
    separating_pair,
    shrikhande,
)
from gnnak.wl.lab import (
    PlainEmbedder,
    different,
    embed,
    pairs_different,
    push_apart,
    run_networks,
)


def exceeds(network, bound, many):
    """Return whether the network distinguishes a pair that the test does not."""
    found = torch.tensor(partition(bound.test, many, **bound.options))
    with torch.no_grad():
        rows = embed(network, many)
    assert rows.isfinite().all()
    return bool((different(rows) & (found[:, None] == found[None, :])).any())


def assert_never_above_bound(name, num_hops, many, channels=16):
    network = PlainEmbedder(name, num_hops, channels=channels)
    assert not exceeds(network, bound_of(name, num_hops), many)


def small_graphs(most):
    return [graph for n in range(1, most + 1) for graph in connected_graphs(n)]


@pytest.mark.parametrize("most", [6, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BOUNDS)
def test_networks_never_exceed_their_bound_on_all_small_graphs(name, most):
    assert_never_above_bound(name, 1, small_graphs(most))


@pytest.fixture(scope="module")
def hard_families():
    """Graphs of families that are hard to tell apart, one list a family."""
    chosen = ("four-regular", "cycles", "regular", "circulant", "srg16")
    return [[graph for group in family(name) for graph in group] for name in chosen]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "num_hops"),
    [
        *((name, 1) for name in BOUNDS),
        *(
            pytest.param(name, 2, marks=pytest.mark.slow if "ppgn" in name else ())
            for name in BOUNDS
            if "-ak" in name
        ),
    ],
)
def test_networks_never_exceed_their_bound_on_hard_families(
    name, num_hops, hard_families
):
    for many in hard_families:
        assert_never_above_bound(name, num_hops, many, channels=8)


@pytest.mark.heavy
def test_trained_networks_never_exceed_their_bound():
    for result in run_networks(["srg16", "cycles"], num_hops=2, steps=2):
        if result.contender.endswith("bound"):
            bound = result.apart
        assert result.apart <= bound


def test_a_bound_that_is_too_large_costs_its_row_alone():
    rows = list(run_networks(["srg16"], ["gin", "ppgn"], steps=1, max_memory=0.0004))
    assert [row.apart for row in rows] == [0, 0, 0, None, 0, 0]
    assert rows[3].contender == "ppgn, bound"
    assert "2-fwl needs about" in rows[3].note
    assert [row.pairs for row in rows] == [1] * 6


def test_push_apart_spreads_embeddings():
    graphs = connected_graphs(5)
    network = PlainEmbedder("gin", num_layers=2, channels=8)

    def spread():
        with torch.no_grad():
            rows = embed(network, graphs)
        rows = rows / rows.abs().mean()
        return float(torch.log(torch.pdist(rows)).mean())

    before = spread()
    push_apart(network, graphs, steps=10)
    assert spread() > before


def test_a_seed_fixes_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first, second = PlainEmbedder("gin", seed=1), PlainEmbedder("gin", seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    rows = [embed(network, [rook()]) for network in (first, second)]
    assert torch.equal(*rows)


def test_pairs_different_counts_inside_groups_only():
    groups = [[rook(), shrikhande()], connected_graphs(4)]
    assert pairs_different(PlainEmbedder("gin"), groups) == 15


@pytest.mark.parametrize("base", [base for base in BASES if base != "ppgn"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_networks_of_all_base_gnns_never_exceed_the_bound_of_gin(base, suffix):
    bound = bound_of(f"{base}{suffix}", 1)
    assert bound == bound_of(f"gin{suffix.removesuffix('-s')}", 1)
    assert_never_above_bound(f"{base}{suffix}", 1, small_graphs(5))


def test_a_network_without_a_bound_is_answered_with_those_that_have_one():
    for name in ("ds-ppgn", "torch_geometric.nn:SAGEConv-ak+"):
        with pytest.raises(
            OptionError, match=r"that bounds '.*'; use one of gin, gcn,"
        ):
            bound_of(name)


KINDS = ("whole", "deletion", "masked-egonets")
WHOLE = [
    *(("gin-ak", kind) for kind in KINDS),
    *(("gin-ak+", kind) for kind in KINDS),
    ("ppgn-ak", "whole"),
]


@pytest.fixture(scope="module")
def hard_graphs():
    """All graphs of up to 5 nodes, connected or not, and pairs that WL tests miss."""
    atlas = [graph for graph in nx.graph_atlas_g() if 0 < len(graph) <= 5]
    many = [*atlas, *(graph for n in (6, 7, 8) for graph in cycle_and_two(n))]
    many = [*many, rook(), shrikhande()]
    many += [graph for row in (0, 3) for graph in separating_pair(SEPARATING[row])]
    return [edges_and_size(graph) for graph in many]


def edges_and_size(graph):
    """Convert a networkx graph to (edge_index, num_nodes)."""
    if not isinstance(graph, nx.Graph):
        return graph
    edges = torch.tensor(list(graph.to_directed().edges), dtype=torch.long)
    return edges.view(-1, 2).T, len(graph)


@pytest.mark.parametrize(("name", "kind"), WHOLE)
def test_gnn_ak_on_whole_graphs_never_exceeds_its_bound(name, kind, hard_graphs):
    network = PlainEmbedder(name, 1, channels=8, kind=kind)
    assert not exceeds(network, bound_of(name, 1, kind=kind), hard_graphs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("member", ["nested-gin", "ego-gin"])
def test_networks_without_a_root_mark_never_exceed_their_bound(
    member, kind, hard_graphs
):
    options = ModelOptions(
        num_layers=3,
        channels=8,
        subgraphs=SubgraphOptions(kind, num_hops=1),
        family=FamilyOptions(pairs=() if member == "nested-gin" else None),
    )
    network = build_model(member, Categorical((1,)), None, 8, options).double().eval()
    bound = bound_of(member, 1, marked=False, kind=kind)

    def embedder(x, edge_index, batch):
        return network(x, edge_index, batch=batch)

    assert not exceeds(embedder, bound, hard_graphs)
    weaker = bound_of(member, None, marked=False)
    assert exceeds(embedder, weaker, hard_graphs) == (kind != "whole")


def test_bounds_of_gnn_ak_on_whole_graphs():
    """GNN-AK does not know the root of a whole graph, GNN-AK+ does."""
    assert bound_of("gin-ak", None).test == "1-wl"
    assert bound_of("ppgn-ak", None).test == "2-fwl"
    for name, kind, test in (
        ("gin-ak", "deletion", "pswl"),
        ("gin-ak", "masked-egonets", "pswl"),
        ("gin-ak+", "whole", "gswl"),
        ("gin-ak+", "deletion", "gswl"),
    ):
        found = bound_of(name, 3, kind=kind)
        assert (found.test, found.options) == (test, {"num_hops": None})
    assert bound_of("gin", None) == bound_of("gin", 2, kind="deletion")


def test_find_bound_knows_none_for_random_subgraphs_and_marked_ppgn():
    assert find_bound("gin-ak", 1, kind="walks") is None
    assert find_bound("ppgn-ak", None, kind="deletion") is None
    with pytest.raises(OptionError, match=r"bounds ppgn-ak\+ .* 'whole'; use egonets"):
        bound_of("ppgn-ak+", None)


MEMBERS = [f"{member}-gin" for member in MEMBER_BOUNDS]
CASES = [
    *((name, 1) for name in MEMBERS),
    *((name, None) for name in MEMBERS if name != "khop-gin"),
    ("khop-gin", 2),
]
"""Members on 1-hop egonets and on whole graphs (None). A k-hop GNN has weights for each
distance, so it needs a bound on distances."""
SLOW_FAMILIES = ("four-regular", "cycles", "circulant", "csl", "srg16", "srg25")


@pytest.mark.parametrize("most", [5, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "num_hops"), CASES)
def test_members_never_exceed_their_bound_on_all_small_graphs(name, num_hops, most):
    assert_never_above_bound(name, num_hops, small_graphs(most))


@pytest.mark.slow
@pytest.mark.parametrize("chosen", SLOW_FAMILIES)
@pytest.mark.parametrize(("name", "num_hops"), CASES)
def test_members_never_exceed_their_bound_on_hard_families(name, num_hops, chosen):
    many = [graph for group in family(chosen) for graph in group]
    assert_never_above_bound(name, num_hops, many)


def test_bound_of_a_member_depends_on_its_subgraphs_and_its_root_mark():
    unmarked = bound_of("nested-gin", 1, marked=False)
    assert unmarked.options == {"num_hops": 1, "root_mark": False}
    assert bound_of("sswl-pna", None).options == {"num_hops": None}
    assert bound_of("id-gin", 3, marked=False).options == {"num_hops": 3}
    assert bound_of("ego-gin", 3).options == {"num_hops": 1}
    assert not has_bound("ds-ppgn")
    assert not has_bound("ds-torch_geometric.nn:SAGEConv")


@pytest.mark.parametrize("base", ["gcn", "sage", "gat", "gatedgcn", "pna", "pna*"])
def test_members_with_other_base_gnns_never_exceed_their_bound(base):
    assert_never_above_bound(f"dss-{base}", 1, small_graphs(4))
    assert separates(PlainEmbedder(f"dss-{base}"), tuple(cycle_and_two(6)))


SEPARATED = [partial(separating_pair, edges) for edges in SEPARATING]
PAIRS = [
    *map(pytest.param, SEPARATED),
    pytest.param(lambda: (rook(), shrikhande()), id="rook and Shrikhande"),
]
LARGE = 50
"""Pairs of graphs with more nodes need wider networks."""


@cache
def distinguished(pair, test, num_hops):
    """Return whether a test distinguishes two graphs, with marked roots."""
    return partition(test, pair(), num_hops=num_hops) == [0, 1]


def separates(network, pair):
    """Return whether a network gives two graphs different embeddings.

    Batch norms use their initial statistics or those of the batch, which magnify small
    differences. Rounding errors are magnified, too: a relabelled copy measures them.
    """
    first, second = pair
    order = torch.randperm(first[1], generator=torch.Generator().manual_seed(0))
    graphs = [first, second, (order[first[0]], first[1])]
    for of_batch in (False, True):
        with torch.no_grad():
            rows = embed(network.train(of_batch), graphs)
        apart, rounding = (rows[1:] - rows[0]).abs().amax(dim=1).tolist()
        if apart > 1000 * rounding:
            return True
    return False


def assert_as_powerful_as_its_class(name, pair):
    """Assert that a member distinguishes a pair exactly if its WL test does."""
    width = 32 if pair()[0][1] > LARGE else 8
    network = PlainEmbedder(name, None, num_layers=8, channels=width)
    bound = bound_of(name, None)
    wanted = distinguished(pair, bound.test, bound.options["num_hops"])
    assert separates(network, pair()) == wanted


@pytest.mark.heavy
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "name",
    ["sswl+-gin", "l2fgnn-gin"]
    + [
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("nested-gin", "ds-gin", "id-gin", "dss-gin", "sun-gin", "sswl-gin")
    ],
)
def test_members_are_as_powerful_as_their_class_on_separating_pairs(name, pair):
    assert_as_powerful_as_its_class(name, pair)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["ds-gin", "dss-gin", "sun-gin"])
@pytest.mark.parametrize("row", [2, 3])
def test_dss_and_sun_are_between_ds_and_sswl(name, row):
    assert_as_powerful_as_its_class(name, SEPARATED[row])


EXACT = {
    "GNN-AK, marked root": (
        {"name": "gin-ak+", "encodings": ("centroid", "subgraph"), "num_hops": None},
        ("pswl", None),
    ),
    "GNN-AK, root deleted": ({"name": "gin-ak", "kind": "deletion"}, ("pswl", None)),
    "GNN-AK with context": ({"name": "gin-ak+", "num_hops": None}, ("gswl", None)),
    "3-hop GNN": ({"name": "khop-gin", "num_hops": 3}, ("pswl", 3)),
    "Ego-GNN": ({"name": "ego-gin", "num_hops": 1}, ("gswl", 1)),
}
"""Networks that distinguish exactly those separating pairs that a test distinguishes,
each with the name of the test and its radius (None = whole graphs)."""


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("case", EXACT)
def test_networks_distinguish_the_separating_pairs_of_their_class(case, pair):
    chosen, (test, num_hops) = EXACT[case]
    network = PlainEmbedder(**chosen, channels=8)
    assert separates(network, pair()) == distinguished(pair, test, num_hops)


@pytest.mark.parametrize(
    ("test", "rows"), [("pswl", [0, 1, 0, 0]), ("gswl", [1, 1, 1, 0])]
)
def test_the_classes_of_gnn_ak_differ_on_the_first_separating_pairs(test, rows):
    """PSWL is the class of GNN-AK with a marked root, GSWL that with context."""
    found = [distinguished(pair, test, None) for pair in SEPARATED[:4]]
    assert found == rows


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "chosen",
    [{"name": "id-fast-gin"}, {"name": "gin-ak", "num_hops": None}],
    ids=["ID-GNN-Fast", "GNN-AK, unmarked root"],
)
def test_networks_that_do_not_mark_roots_distinguish_no_separating_pair(chosen, pair):
    """The bound of ID-GNN-Fast is not tight: PSWL(VS) distinguishes the second pair."""
    assert not separates(PlainEmbedder(**chosen, channels=8), pair())


def test_id_gnn_fast_distinguishes_more_than_1_wl():
    pair = tuple(cycle_and_two(6))
    assert partition("1-wl", pair) == [0, 0]
    assert separates(PlainEmbedder("id-fast-gin"), pair)
