import copy
import json
import re

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import find_categories, from_networkx, to_networkx
from gnnak.graphs.readers.networkx import read_node_link
from gnnak.graphs.readers.rows import BadRow
from tests.graphs.graph_strategies import stores


def test_from_networkx_all_fields_by_hand():
    labelled = nx.Graph()
    labelled.add_node("b", kind=1, place=[0.5, 2])
    labelled.add_node(("a", 1), kind=0, place=[1.5, 3])
    labelled.add_edge("b", ("a", 1), bond=7)
    labelled.add_edge("b", "b", bond=8)
    directed = nx.DiGraph()
    directed.add_node(0, kind=True, place=(np.float64(1), 1))
    directed.add_node(1, kind=2, place=np.array([2.0, 2.0]))
    directed.add_edge(1, 0, bond=9)
    before = copy.deepcopy(labelled)
    store = from_networkx([labelled, directed], ["kind", "place"], "bond").check()
    assert store.num_nodes.tolist() == [2, 2]
    assert store.num_edges.tolist() == [3, 1]
    assert store.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 0, 0]]
    assert store.x.tolist() == [[1, 0.5, 2], [0, 1.5, 3], [1, 1, 1], [2, 2, 2]]
    assert store.edge_attr.tolist() == [[7], [7], [8], [9]]
    assert (store.x.dtype, store.edge_attr.dtype) == (torch.float, torch.long)
    assert nx.utils.graphs_equal(before, labelled)


def test_from_networkx_multigraph_keeps_parallel_edges():
    store = from_networkx([nx.MultiGraph([(0, 1), (0, 1), (1, 1)])])
    assert store.edge_index.tolist() == [[0, 1, 0, 1, 1], [1, 0, 1, 0, 1]]
    two_way = from_networkx([nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])])
    assert two_way.edge_index.tolist() == [[0, 0, 1], [1, 1, 0]]


def test_from_networkx_empty_things():
    assert len(from_networkx([]).check()) == 0
    store = from_networkx([nx.Graph(), nx.empty_graph(2), nx.Graph()]).check()
    assert store.num_nodes.tolist() == [0, 2, 0]
    assert store.x is None
    empty = from_networkx([nx.Graph()], ["a", "b"], "c").check()
    assert (empty.x.shape, empty.edge_attr.shape) == ((0, 2), (0, 1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "node 'v' of graph 0 has no attribute 'a'; set it."),
        ({"a": "red"}, "'a' of node 'w' of graph 0 is 1, but it is a string elsewhere"),
        ({"a": None}, "the attributes 'a' are not numbers"),
        ({"a": 1j}, "the attributes 'a' are complex"),
        ({"a": 1 << 80}, "the attributes 'a' are not numbers"),
        ({"a": [1, 2]}, "the attributes 'a' are not numbers or differ"),
    ],
    ids=str,
)
def test_from_networkx_raises_a_clear_error(value, message):
    graph = nx.Graph()
    graph.add_node("v", **value)
    graph.add_node("w", a=1)
    with pytest.raises(GraphError, match=re.escape(message)):
        from_networkx([graph], node_attr="a")


def test_from_networkx_names_edges_and_foreign_things():
    with pytest.raises(GraphError, match=r"edge \(0, 1\) of graph 1 has no"):
        from_networkx([nx.Graph(), nx.path_graph(2)], edge_attr="weight")
    with pytest.raises(GraphError, match="graph 1 is a str; give networkx graphs"):
        from_networkx([nx.Graph(), "graph"])
    with pytest.raises(GraphError, match="this is one networkx graph"):
        from_networkx(nx.path_graph(3))


def molecule(elements, bonds, **targets):
    graph = nx.Graph(**targets)
    graph.add_nodes_from((i, {"element": e}) for i, e in enumerate(elements))
    graph.add_edges_from((u, v, {"bond": b}) for u, v, b in bonds)
    return graph


WATER = molecule("HOH", [(0, 1, "single"), (1, 2, "single")], label="wet", mass=18)
CYANIDE = molecule("HCN", [(0, 1, "single"), (1, 2, "triple")], label="toxic", mass=27)


def test_from_networkx_numbers_string_labels_and_reads_targets():
    store = from_networkx([WATER, CYANIDE], "element", "bond", target="label").check()
    assert store.x.flatten().tolist() == [1, 3, 1, 1, 0, 2]
    assert store.edge_attr.flatten().tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert store.y.tolist() == [1, 0]
    assert (store.x.dtype, store.y.dtype) == (torch.long, torch.long)
    both = from_networkx([WATER, CYANIDE], target=["mass", "label"])
    assert both.y.tolist() == [[18, 1], [27, 0]]
    nodes = from_networkx([WATER], node_target="element")
    assert nodes.node_targets
    assert nodes.y.tolist() == [0, 1, 0]


def test_from_networkx_uses_the_categories_of_other_graphs():
    known = find_categories([CYANIDE], ["element"], graph_attr=["label"])
    assert known == {"element": ("C", "H", "N"), "label": ("toxic",)}
    with pytest.raises(GraphError, match=r"'element' of node 1 of graph 0 is 'O'"):
        from_networkx([WATER], "element", categories=known)
    with pytest.raises(GraphError, match="node 0 of graph 0 is 'H'; give numbers"):
        from_networkx([WATER], "element", categories={})
    store = from_networkx([CYANIDE], "element", categories={"element": "NCH"})
    assert store.x.flatten().tolist() == [2, 1, 0]


def test_from_networkx_names_a_graph_without_target():
    with pytest.raises(GraphError, match="graph 1 has no attribute 'label'; set it"):
        from_networkx([WATER, nx.path_graph(2)], target="label")
    with pytest.raises(GraphError, match="give one of them"):
        from_networkx([WATER], target="label", node_target="element")


def test_to_networkx_keeps_features_and_parallel_edges():
    graph = nx.MultiGraph([(0, 1, {"w": 1}), (0, 1, {"w": 2})])
    nx.set_node_attributes(graph, 3, "a")
    back = to_networkx(from_networkx([graph], "a", "w"), -1)
    assert dict(back.nodes(data=True)) == {0: {"x": [3]}, 1: {"x": [3]}}
    rows = sorted((u, v, data["edge_attr"]) for u, v, data in back.edges(data=True))
    assert rows == [(0, 1, [1]), (0, 1, [2]), (1, 0, [1]), (1, 0, [2])]


@given(stores())
@settings(deadline=None)
def test_networkx_round_trip(store):
    graphs = [to_networkx(store, index) for index in range(len(store))]
    node_attr = None if store.x is None else "x"
    back = from_networkx(graphs, node_attr).check()
    assert back.num_nodes.tolist() == store.num_nodes.tolist()
    assert back.num_edges.tolist() == store.num_edges.tolist()
    if store.x is not None and store.x.numel():
        assert back.x.tolist() == store.x.tolist()
    for ours, theirs in zip(back, store, strict=True):
        first, second = (sorted(one.edge_index.t().tolist()) for one in (ours, theirs))
        assert first == second


def test_from_networkx_order_is_iteration_order():
    graph = nx.Graph()
    graph.add_nodes_from([5, 3, 9])
    graph.add_edge(9, 5)
    assert from_networkx([graph]).edge_index.tolist() == [[0, 2], [2, 0]]


PATH = {
    "nodes": [{"id": "a", "x": 1}, {"id": "b"}],
    "edges": [{"source": "a", "target": "b"}],
}


@pytest.mark.parametrize("edges", ["edges", "links"])
def test_read_node_link_is_the_inverse_of_networkx(tmp_path, edges):
    graph = nx.path_graph(4)
    graph.graph["y"] = 2.5
    data = [nx.node_link_data(each, edges=edges) for each in (graph, nx.Graph())]
    (tmp_path / "g.json").write_text(json.dumps(data))
    found = read_node_link(tmp_path / "g.json")
    assert nx.utils.graphs_equal(found[0], graph)
    assert len(found[1]) == 0


def test_read_node_link_one_graph_and_lines(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps(PATH))
    assert len(read_node_link(tmp_path / "g.json")) == 1
    text = json.dumps(PATH) + "\n\n{broken\n[1]\n" + json.dumps(PATH)
    (tmp_path / "g.jsonl").write_text(text)
    first, second, third, fourth = read_node_link(tmp_path / "g.jsonl")
    assert list(first) == list(fourth) == ["a", "b"]
    assert isinstance(second, BadRow)
    assert second.number == 2
    assert "not a node-link graph" in third.reason


def test_read_node_link_with_edges_as_pairs_says_what_an_edge_is(tmp_path):
    graph = {"nodes": [{"id": 0}, {"id": 1}], "edges": [[0, 1]]}
    (tmp_path / "g.json").write_text(json.dumps(graph))
    (row,) = read_node_link(tmp_path / "g.json")
    assert 'edges are not objects such as {"source": 0, "target": 1}' in row.reason


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "\0"])
def test_read_node_link_of_something_else_is_a_sentence(tmp_path, content):
    (tmp_path / "g.json").write_text(content)
    with pytest.raises(FileFormatError, match="is not JSON"):
        read_node_link(tmp_path / "g.json")


def test_read_node_link_refuses_edges_to_nodes_that_are_not_listed(tmp_path):
    links = {"edges": [{"source": 0, "target": 7}]}
    graphs = [{"nodes": [{"id": 0}], **links}, {"nodes": [], **links}]
    (tmp_path / "g.json").write_text(json.dumps(graphs))
    bad, good = read_node_link(tmp_path / "g.json")
    assert str(bad) == "row 1: an edge joins node 7, which nodes does not list"
    assert list(good.edges) == [(0, 7)]


@pytest.mark.parametrize(
    "item", [3, None, {}, {"nodes": 1}, {"nodes": [], "edges": [{}]}]
)
def test_read_node_link_malformed_graphs_are_bad_rows(tmp_path, item):
    (tmp_path / "g.json").write_text(json.dumps([PATH, item]))
    good, bad = read_node_link(tmp_path / "g.json")
    assert type(good) is nx.Graph
    assert isinstance(bad, BadRow)
    assert bad.number == 2
