import json

import networkx as nx
import pytest

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.networkx import read_node_link
from gnnak.graphs.readers.rows import BadRow

PATH = {
    "nodes": [{"id": "a", "x": 1}, {"id": "b"}],
    "edges": [{"source": "a", "target": "b"}],
}


@pytest.mark.parametrize("edges", ["edges", "links"])
def test_read_node_link_is_the_inverse_of_networkx(tmp_path, edges):
    graph = nx.path_graph(4)
    graph.graph["y"] = 2.5
    data = [
        nx.node_link_data(graph, edges=edges),
        nx.node_link_data(nx.Graph(), edges=edges),
    ]
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


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "\0"])
def test_read_node_link_of_something_else_is_a_sentence(tmp_path, content):
    (tmp_path / "g.json").write_text(content)
    with pytest.raises(FileFormatError, match="is not JSON"):
        read_node_link(tmp_path / "g.json")


@pytest.mark.parametrize(
    "item", [3, None, {}, {"nodes": 1}, {"nodes": [], "edges": [{}]}]
)
def test_read_node_link_malformed_graphs_are_bad_rows(tmp_path, item):
    (tmp_path / "g.json").write_text(json.dumps([PATH, item]))
    good, bad = read_node_link(tmp_path / "g.json")
    assert type(good) is nx.Graph
    assert isinstance(bad, BadRow)
    assert bad.number == 2
