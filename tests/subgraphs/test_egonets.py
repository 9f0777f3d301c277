from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.errors import GraphError, OptionError, SubgraphError
from gnnak.graphs import ragged
from gnnak.nn.uplift import check_hops
from gnnak.subgraphs import EgoNets, RootedSubgraphs, egonets, induce, reach
from gnnak.subgraphs.rooted import TENSORS
from tests.operation_counts import OperationCount
from tests.strategies import graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def assert_same(first: RootedSubgraphs, second: RootedSubgraphs) -> None:
    for name in TENSORS:
        assert torch.equal(getattr(first, name), getattr(second, name)), name


def egonets_by_networkx(edge_index, num_nodes, num_hops) -> RootedSubgraphs:
    """The definition, with networkx: paths towards the root, induced edges."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edge_index.t().tolist())
    node, subgraph, hop, ends, edge = [], [], [], [], []
    for root in range(num_nodes):
        towards = graph.reverse(copy=False)
        far = nx.single_source_shortest_path_length(towards, root, cutoff=num_hops)
        copy_of = {v: len(node) + i for i, v in enumerate(sorted(far))}
        node += sorted(far)
        subgraph += [root] * len(far)
        hop += [far[v] for v in sorted(far)]
        for index, (u, v) in enumerate(edge_index.t().tolist()):
            if u in copy_of and v in copy_of:
                ends.append((copy_of[v], copy_of[u], index))
    ends.sort()
    edge = [index for _, _, index in ends]
    pairs = [(source, target) for target, source, _ in ends]
    return RootedSubgraphs(
        torch.arange(num_nodes),
        torch.tensor(node, dtype=torch.long),
        torch.tensor(subgraph, dtype=torch.long),
        torch.tensor(hop, dtype=torch.long),
        torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t(),
        torch.tensor(edge, dtype=torch.long),
    )


@settings(max_examples=50, deadline=None)
@given(graph=graphs(), num_hops=st.integers(0, 3), size=st.integers(2, 5))
def test_what_egonets_assume_equals_what_is_computed(graph, num_hops, size):
    edge_index, num_nodes = graph
    subs = egonets(edge_index, num_nodes, num_hops)
    computed = replace(subs)
    assert computed.hop_range is None
    assert subs.hop_range == (0, num_hops)
    assert subs.in_order is computed.in_order is True
    assert torch.equal(subs.centroid, computed.centroid)
    assert subs.centroid.dtype == computed.centroid.dtype
    assert torch.equal(subs.hop_rows(size), computed.hop_rows(size))
    reverse = torch.arange(num_nodes).flip(0)
    assert egonets(edge_index, num_nodes, 1, reverse).in_order is (num_nodes < 2)


def test_egonets_are_checked_by_layers_without_reading_distances():
    subs = egonets(PATH, num_nodes=3, num_hops=2)
    with OperationCount() as count:
        check_hops(subs, 2)
        assert subs.in_order
        assert subs.hop_rows(4) is subs.hop
    assert count.total == 0
    check_hops(egonets(PATH, num_nodes=3, num_hops=5), 2)
    with pytest.raises(SubgraphError, match="a node is 2 hops from its root"):
        check_hops(subs, 1)


def test_egonets_of_a_path_equal_hand_written_fields():
    subs = egonets(PATH, num_nodes=3, num_hops=1)
    assert subs.root.tolist() == [0, 1, 2]
    assert subs.node.tolist() == [0, 1, 0, 1, 2, 1, 2]
    assert subs.subgraph.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert subs.hop.tolist() == [0, 1, 1, 0, 1, 1, 0]
    assert subs.edge_index.tolist() == [
        [1, 0, 3, 2, 4, 3, 6, 5],
        [0, 1, 2, 3, 3, 4, 5, 6],
    ]
    assert subs.edge.tolist() == [1, 0, 1, 0, 3, 2, 3, 2]
    assert subs.centroid.tolist() == [0, 3, 6]


@pytest.mark.heavy
@settings(max_examples=500, deadline=None)
@given(graph=graphs(), num_hops=st.integers(0, 4))
def test_egonets_equal_networkx(graph, num_hops):
    subs = egonets(*graph, num_hops).check(*graph)
    assert_same(subs, egonets_by_networkx(*graph, num_hops))


@pytest.mark.parametrize("num_hops", [0, 1, 2, 5])
def test_egonets_of_corner_cases_equal_networkx(corner_case, num_hops):
    graph = corner_case.edge_index, corner_case.num_nodes
    subs = egonets(*graph, num_hops).check(*graph)
    assert_same(subs, egonets_by_networkx(*graph, num_hops))


@settings(max_examples=100, deadline=None)
@given(batch=st.lists(graphs(), max_size=5), num_hops=st.integers(0, 3))
def test_egonets_of_a_batch_are_those_of_its_graphs(batch, num_hops):
    parts: dict[str, list] = {name: [] for name in TENSORS}
    nodes = subgraphs = copies = edges = 0
    edge_index = [torch.empty(2, 0, dtype=torch.long)]
    for part, num_nodes in batch:
        subs = egonets(part, num_nodes, num_hops)
        shift = {
            "root": nodes,
            "node": nodes,
            "subgraph": subgraphs,
            "hop": 0,
            "edge_index": copies,
            "edge": edges,
        }
        for name, by in shift.items():
            parts[name].append(getattr(subs, name) + by)
        edge_index.append(part + nodes)
        nodes, edges = nodes + num_nodes, edges + part.size(1)
        subgraphs, copies = subgraphs + num_nodes, copies + subs.num_copies
    union = egonets(torch.cat(edge_index, dim=1), nodes, num_hops)
    for name, values in parts.items():
        empty = torch.empty(2, 0) if name == "edge_index" else torch.empty(0)
        alone = torch.cat([empty.long(), *values], dim=-1)
        assert torch.equal(getattr(union, name), alone), name


@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(),
    num_hops=st.integers(0, 3),
    chunk=st.integers(1, 20),
    few=st.sampled_from([0, 9999]),
    table=st.sampled_from([0, 600, 1 << 24]),
)
def test_egonets_do_not_depend_on_chunks_or_tables(graph, num_hops, chunk, few, table):
    whole = egonets(*graph, num_hops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(induce, "CHUNK", chunk)
        patch.setattr(ragged, "FEW", few)
        patch.setattr(induce, "TABLE", table)
        assert_same(whole, egonets(*graph, num_hops))


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), num_hops=st.integers(0, 3))
def test_egonets_do_not_depend_on_how_edges_are_found(graph, num_hops):
    """If there are few edges, all are tested, without a search for hubs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(induce, "FEW_EDGES", -1)
        separate_hubs = egonets(*graph, num_hops)
    assert_same(separate_hubs, egonets(*graph, num_hops))
    assert_same(separate_hubs, egonets_by_networkx(*graph, num_hops))


def test_egonets_of_a_star_do_not_visit_all_edges_of_the_hub(monkeypatch):
    """Every leaf's egonet contains the hub; its other edges must not be visited."""
    size = 2000
    hub, leaf = torch.zeros(size - 1).long(), torch.arange(1, size)
    star = torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])])
    looked_at = []
    ranges = induce.ragged_ranges

    def counting(start, count):
        looked_at.append(int(count.sum()))
        return ranges(start, count)

    monkeypatch.setattr(induce, "ragged_ranges", counting)
    subs = egonets(star, size, 1)
    assert subs.num_copies == size + 2 * (size - 1)
    assert sum(looked_at) < 4 * (subs.num_copies + subs.num_edge_copies)


def test_egonets_of_some_roots_are_a_subset_of_all_egonets():
    roots = torch.tensor([2, 0])
    some = egonets(PATH, 3, 1, roots).check(PATH, 3)
    assert some.root.tolist() == [2, 0]
    assert some.node.tolist() == [1, 2, 0, 1]
    assert some.hop.tolist() == [1, 0, 0, 1]


def test_egonets_do_not_modify_their_input():
    before = PATH.clone()
    egonets(PATH, 3, 2)
    assert torch.equal(PATH, before)


@pytest.mark.parametrize(
    ("edge_index", "num_nodes", "message"),
    [
        (torch.tensor([[0], [3]]), 3, "names node 3, but the graph has 3 nodes"),
        (torch.tensor([[0], [-1]]), 3, "names node -1"),
        (torch.tensor([[0.0], [1.0]]), 3, "convert it with .long()"),
        (torch.tensor([0, 1]), 3, r"has shape \[2\]; give \[2, e\]"),
        (torch.tensor([[0, 1]]), 3, r"has shape \[1, 2\]"),
        ([[0], [1]], 3, "is a list"),
    ],
)
def test_egonets_of_a_malformed_graph_raise_an_error(edge_index, num_nodes, message):
    with pytest.raises(GraphError, match=message):
        egonets(edge_index, num_nodes, 1)


@pytest.mark.parametrize("num_hops", [-1, 1.5, None, True, "2"])
def test_egonets_with_a_wrong_num_hops_raise_a_clear_error(num_hops):
    with pytest.raises(OptionError, match=r"num_hops is .* whole number of at least 0"):
        EgoNets(num_hops)
    with pytest.raises(OptionError, match="num_hops is"):
        egonets(PATH, 3, num_hops)


def test_egonets_raise_when_keys_would_overflow(monkeypatch):
    monkeypatch.setattr(reach, "INT64_MAX", 9 * 3)
    egonets(PATH, 3, 1)
    monkeypatch.setattr(reach, "INT64_MAX", 9 * 2)
    with pytest.raises(GraphError, match="too large for 5 hops; use at most 1"):
        egonets(PATH, 3, 5)
