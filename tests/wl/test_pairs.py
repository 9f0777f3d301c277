import torch

from gnnak.wl.inputs import read_union
from gnnak.wl.pair_tests import Pairs, across_steps, folklore_steps, inside_steps

PATH = (torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)


def listed(pairs, indices):
    """Return the pairs at some indices as text, such as `01`."""
    return [f"{pairs.root[i]}{pairs.node[i]}" for i in indices.tolist()]


def entries(pairs, steps):
    """Return for each pair its entries; an entry is one or two pairs."""
    found = {}
    sources = [listed(pairs, source) for source in steps.sources]
    for target, *entry in zip(listed(pairs, steps.target), *sources, strict=True):
        found.setdefault(target, []).append(" ".join(entry))
    return {target: sorted(values) for target, values in sorted(found.items())}


def test_pairs_of_whole_graphs_include_other_components():
    union = read_union(["B_", "@"])
    pairs = Pairs.of(union, None)
    assert pairs.root.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert pairs.node.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 3]
    assert pairs.graph.tolist() == [0] * 9 + [1]
    assert pairs.own.tolist() == [0, 4, 8, 9]


def test_pairs_of_egonets_are_the_nodes_within_the_radius():
    pairs = Pairs.of(read_union([PATH]), 1)
    every = torch.arange(pairs.root.numel())
    assert listed(pairs, every) == ["00", "01", "10", "11", "12", "21", "22"]
    assert pairs.own.tolist() == [0, 3, 6]


def test_steps_of_a_path_on_whole_graphs():
    union = read_union([PATH])
    pairs = Pairs.of(union, None)
    inside = entries(pairs, inside_steps(union, pairs))
    assert inside["00"] == ["01"]
    assert inside["01"] == ["00", "02"]
    across = entries(pairs, across_steps(union, pairs))
    assert across["01"] == ["11"]
    assert across["10"] == ["00", "20"]
    local = entries(pairs, folklore_steps(union, pairs, both=False))
    assert local["00"] == ["01 10"]
    assert local["01"] == ["00 01", "02 21"]
    both = entries(pairs, folklore_steps(union, pairs, both=True))
    assert both["00"] == ["01 10"]
    assert both["01"] == ["00 01", "01 11", "02 21"]


def test_steps_of_a_path_on_egonets_stay_in_the_subgraph():
    union = read_union([PATH])
    pairs = Pairs.of(union, 1)
    assert entries(pairs, inside_steps(union, pairs)) == {
        "00": ["01"],
        "01": ["00"],
        "10": ["11"],
        "11": ["10", "12"],
        "12": ["11"],
        "21": ["22"],
        "22": ["21"],
    }
    assert entries(pairs, across_steps(union, pairs))["01"] == ["11"]
    assert entries(pairs, folklore_steps(union, pairs, both=False))["01"] == ["00 01"]


def test_pairs_of_graphs_without_nodes_or_edges():
    for graphs in ([], [(torch.zeros(2, 0).long(), 0)], ["A?", "@"]):
        union = read_union(graphs)
        for num_hops in (None, 0, 2):
            pairs = Pairs.of(union, num_hops)
            for steps in (
                inside_steps(union, pairs),
                across_steps(union, pairs),
                folklore_steps(union, pairs, both=True),
            ):
                assert steps.target.numel() == 0
