import pytest
import torch

from gnnak.errors import OptionError
from gnnak.wl import partition
from gnnak.wl.bounds import BOUNDS, bound_of
from gnnak.wl.families import connected_graphs, family, rook, shrikhande
from gnnak.wl.networks import (
    PlainEmbedder,
    different,
    embed,
    pairs_different,
    push_apart,
    run_networks,
)


def assert_never_above_bound(name, num_hops, many, channels=16):
    bound = bound_of(name, num_hops)
    found = torch.tensor(partition(bound.test, many, **bound.options))
    with torch.no_grad():
        rows = embed(PlainEmbedder(name, num_hops, channels=channels), many)
    assert rows.isfinite().all()
    apart = different(rows)
    assert not (apart & (found[:, None] == found[None, :])).any()


@pytest.mark.parametrize("most", [6, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BOUNDS)
def test_networks_never_exceed_their_bound_on_all_small_graphs(name, most):
    many = [graph for n in range(1, most + 1) for graph in connected_graphs(n)]
    assert_never_above_bound(name, 1, many)


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


def test_an_unknown_network_is_named_with_the_known_ones():
    with pytest.raises(OptionError, match="network is 'gcn'; use one of: gin, gin-ak"):
        bound_of("gcn")
