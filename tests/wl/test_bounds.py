"""The tests that bound networks on whole graphs, with and without some edges."""

import networkx as nx
import pytest
import torch

from gnnak.errors import OptionError
from gnnak.models import ModelOptions, build_model
from gnnak.models.options import FamilyOptions, SubgraphOptions
from gnnak.nn import Categorical
from gnnak.wl import partition
from gnnak.wl.bounds import bound_of, find_bound
from gnnak.wl.families import SEPARATIONS, cycle_and_two, rook, shrikhande
from gnnak.wl.networks import PlainEmbedder, different, embed

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
    many += [graph for row in (0, 3) for graph in SEPARATIONS[row].pair()]
    return [edges_and_size(graph) for graph in many]


def edges_and_size(graph):
    """Convert a networkx graph to (edge_index, num_nodes)."""
    if not isinstance(graph, nx.Graph):
        return graph
    edges = torch.tensor(list(graph.to_directed().edges), dtype=torch.long)
    return edges.view(-1, 2).T, len(graph)


def exceeds(network, bound, many):
    """Return whether the network distinguishes a pair that the test does not."""
    found = torch.tensor(partition(bound.test, many, **bound.options))
    with torch.no_grad():
        apart = different(embed(network, many))
    return bool((apart & (found[:, None] == found[None, :])).any())


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
    assert find_bound("gcn-ak+", 1) is None
    assert find_bound("ppgn-ak", None, kind="deletion") is None
    with pytest.raises(OptionError, match=r"bounds ppgn-ak\+ .* 'whole'; use egonets"):
        bound_of("ppgn-ak+", None)
