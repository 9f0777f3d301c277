import networkx as nx
import pytest
import torch

from gnnak.errors import GnnakError, GraphError, OptionError
from gnnak.models import ModelOptions
from gnnak.wl import TESTS, Options, distinguishes, explain, partition
from gnnak.wl.bounds import Contender, find_test
from gnnak.wl.compare import estimated_bytes
from gnnak.wl.inputs import read_union
from gnnak.wl.options import known_options, read_options

PAIR = nx.path_graph(4), nx.star_graph(3)


def test_every_test_takes_its_default_options():
    for test in TESTS:
        assert distinguishes(test, *PAIR)


@pytest.mark.parametrize(
    ("test", "options", "sentence"),
    [
        ("4-wl", {}, "there is no test '4-wl'; did you mean '3-wl'"),
        ("1-wl", {"num_hops": 1}, "no option 'num_hops' of 1-wl; .*labels"),
        ("subgraph-1-wl*", {"hash": "3-wl"}, "no option 'hash' of subgraph-1-wl[*]"),
        ("subgraph-1-wl", {"num_hop": 1}, "did you mean 'num_hops'"),
        ("subgraph-1-wl", {"num_hops": -1}, "num_hops is -1; give a whole number"),
        ("subgraph-1-wl", {"hash": "4-wl"}, "hash is '4-wl'; use one of: exact, 1-wl"),
        ("subgraph-1-wl", {"d2c": 1}, "d2c is 1; give True or False"),
        ("1-wl", {"undirected": 0}, "undirected is 0; give True or False"),
        (
            "gin-ak+",
            {"d2c": True},
            "no option 'd2c' of gin-ak[+]; use one of: num_hops,",
        ),
        ("gin", {"num_hops": 1}, "no option 'num_hops' of gin; use one of: undirected"),
        ("gin-akk", {}, "no test 'gin-akk'; .* or a network such as gin-ak[+]"),
        ("ds-ppgn", {}, "bounds 'ds-ppgn'; use one of gin, "),
        ("1-wl", {"max_memory": float("nan")}, "max_memory is nan; give a positive"),
        ("1-wl", {"max_memory": 0}, "max_memory is 0; give a positive number"),
    ],
)
def test_a_wrong_option_is_one_clear_sentence(test, options, sentence):
    with pytest.raises(OptionError, match=sentence):
        partition(test, PAIR, **options)


@pytest.mark.parametrize(
    ("name", "options", "bound"),
    [
        ("swl", {"readout": "sv"}, ("swl", {"readout": "sv"})),
        ("GIN", {"labels": False}, ("1-wl", {"labels": False})),
        ("gin-ak", {}, ("subgraph-1-wl*", {"centroid": True, "num_hops": 3})),
        ("nested-gin", {}, ("swl", {"num_hops": 3})),
        ("ego-gin", {}, ("gswl", {"num_hops": 1})),
        ("gin-ak+", {"num_hops": None}, ("gswl", {"num_hops": None})),
        ("PNA*-AK+-s", {"num_hops": None}, ("gswl", {"num_hops": None})),
        ("sswl+-gcn", {}, ("sswl", {"num_hops": None})),
        ("l2fgnn-gin", {}, ("2-slfwl", {"num_hops": None})),
        ("nested-gin", {"num_hops": 3}, ("swl", {"num_hops": 3})),
    ],
)
def test_the_name_of_a_network_stands_for_the_test_that_bounds_it(name, options, bound):
    assert find_test(name, options) == Contender(*bound)
    test, same = bound
    for run in (partition, lambda *a, **b: distinguishes(a[0], *a[1], **b)):
        assert run(name, PAIR, **options) == run(test, PAIR, **same)
    found, same = explain(name, *PAIR, **options), explain(test, *PAIR, **same)
    assert found.colors == same.colors


@pytest.mark.parametrize(
    ("name", "options", "label"),
    [
        ("1-wl", {"max_memory": 1.0}, "1-wl"),
        ("subgraph-1-wl", {}, "subgraph-1-wl (num_hops=1)"),
        ("swl", {}, "swl"),
        ("GIN-AK", {}, "gin-ak: subgraph-1-wl* (centroid, num_hops=3)"),
        ("sswl+-gin", {}, "sswl+-gin: sswl (num_hops=None)"),
        ("gin", {"labels": False}, "gin: 1-wl (labels=False)"),
    ],
)
def test_a_label_names_the_network_the_test_and_the_radius(name, options, label):
    assert find_test(name, options).label == label
    assert str(explain(name, *PAIR, **options)).startswith(f"{label} tells the graphs")


def test_networks_by_name_have_the_hops_of_build_model():
    hops = ModelOptions().extractor.num_hops
    cycles = nx.cycle_graph(8), nx.disjoint_union(*[nx.cycle_graph(4)] * 2)
    assert not distinguishes("gin-ak", *cycles, num_hops=1)
    assert distinguishes("gin-ak", *cycles, num_hops=hops)
    assert distinguishes("gin-ak", *cycles)


def test_read_options_puts_1_wl_inside_the_starred_test():
    assert read_options("subgraph-1-wl*").hash == "1-wl"
    assert read_options("subgraph-1-wl") == Options()
    assert "hash" in known_options("subgraph-1-wl")


@pytest.mark.parametrize(
    ("test", "options", "size"),
    [
        ("3-fwl", {}, 500),
        ("3-wl", {}, 2000),
        ("2-fwl", {}, 2000),
        ("subgraph-1-wl", {"hash": "3-wl", "num_hops": 3}, 300),
        ("subgraph-1-wl*", {"num_hops": 3}, 20_000),
    ],
)
def test_graphs_too_large_for_a_test_are_refused_with_the_estimate(test, options, size):
    star = torch.stack([torch.zeros(size - 1).long(), torch.arange(1, size)])
    graph = torch.cat([star, star.flip(0)], dim=1), size
    with pytest.raises(GraphError, match=rf"{test[:5]}.* needs about .* GiB for 2 gra"):
        distinguishes(test, graph, graph, **options)


def test_the_estimate_grows_with_the_power_of_the_test():
    small, large = (read_union([nx.path_graph(n)]) for n in (10, 20))
    for test, power in (("2-wl", 2), ("3-wl", 3), ("2-fwl", 3), ("3-fwl", 4)):
        options = read_options(test)
        grown = estimated_bytes(test, large, options)
        assert grown == 2**power * estimated_bytes(test, small, options)


def test_the_estimate_counts_egonets_and_bounds_them_by_walks_if_there_are_many(
    monkeypatch,
):
    # In the complete bipartite graph, walks of two steps reach three nodes in six ways.
    union = read_union([nx.complete_bipartite_graph(3, 3), nx.path_graph(6)])
    options = read_options("subgraph-1-wl", hash="2-fwl", num_hops=2)
    counted = estimated_bytes("subgraph-1-wl", union, options)
    sizes = [6] * 6 + [3, 4, 5, 5, 4, 3]
    assert counted == 8 * 14 * sum(size**3 for size in sizes)
    monkeypatch.setattr("gnnak.wl.compare.MOST_COUNTED", 0)
    assert estimated_bytes("subgraph-1-wl", union, options) >= counted


def test_all_errors_are_gnnak_errors():
    with pytest.raises(GnnakError):
        distinguishes("2-fwl", "?!", "Bw")
