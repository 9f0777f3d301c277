"""Subgraph GNNs other than GNN-AK, with random weights, and the tests that bound them.

Every network is in float64, and small enough to run on whole families of graphs.
"""

from functools import cache

import pytest
import torch

from gnnak.errors import OptionError
from gnnak.wl import partition
from gnnak.wl.bounds import MEMBER_BOUNDS, bound_of, has_bound
from gnnak.wl.families import (
    SEPARATIONS,
    connected_graphs,
    cycle_and_two,
    family,
    rook,
    shrikhande,
)
from gnnak.wl.networks import PlainEmbedder, embed
from tests.wl.test_networks import assert_never_above_bound

MEMBERS = [f"{member}-gin" for member in MEMBER_BOUNDS]
CASES = [
    *((name, 1) for name in MEMBERS),
    *((name, None) for name in MEMBERS if name != "khop-gin"),
    ("khop-gin", 2),
]
"""Members on 1-hop egonets and on whole graphs (None). A k-hop GNN has weights for each
distance, so it needs a bound on distances."""
SLOW_FAMILIES = ("four-regular", "cycles", "circulant", "csl", "srg16", "srg25")


def small_graphs(most):
    return [graph for n in range(1, most + 1) for graph in connected_graphs(n)]


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
    with pytest.raises(OptionError, match=r"network is 'ds-ppgn'; use one of: gin, "):
        bound_of("ds-ppgn")


@pytest.mark.parametrize("base", ["gcn", "sage", "gat", "gatedgcn", "pna", "pna*"])
def test_members_with_other_base_gnns_never_exceed_their_bound(base):
    assert_never_above_bound(f"dss-{base}", 1, small_graphs(4))
    assert separates(PlainEmbedder(f"dss-{base}"), tuple(cycle_and_two(6)))


PAIRS = [
    *(pytest.param(row.pair, id=row.edges) for row in SEPARATIONS),
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

    Batch norms use the statistics of the batch, since they magnify small differences.
    Rounding errors are magnified, too: a relabelled copy of a graph measures them.
    """
    first, second = pair
    order = torch.randperm(first[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        rows = embed(network.train(), [first, second, (order[first[0]], first[1])])
    apart, rounding = (rows[1:] - rows[0]).abs().amax(dim=1).tolist()
    return apart > 1000 * rounding


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
    ["sswl+-gin"]
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
    assert_as_powerful_as_its_class(name, SEPARATIONS[row].pair)


EXACT = {
    "GNN-AK, marked root": (
        {"name": "gin-ak+", "encodings": ("centroid", "subgraph"), "num_hops": None},
        ("pswl", None),
    ),
    "GNN-AK, root deleted": (
        {"name": "gin-ak", "kind": "deletion"},
        ("pswl", None),
    ),
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
    found = [distinguished(row.pair, test, None) for row in SEPARATIONS[:4]]
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
