import re

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import (
    GraphStore,
    format_graph6,
    from_networkx,
    parse_graph6,
    read_graph6,
    write_graph6,
)
from gnnak.graphs.readers.graph6 import _decode_size
from tests.graphs.graph_strategies import assert_same, int_tensor


def edge_sets(store: GraphStore) -> list:
    return [
        (one.num_nodes, sorted(map(tuple, one.edge_index.t().tolist())))
        for one in store
    ]


def test_parse_graph6_example_of_the_reference():
    store = parse_graph6("DQc").check()
    assert store.num_nodes.tolist() == [5]
    pairs = {(0, 2), (0, 4), (1, 3), (3, 4)}
    assert set(map(tuple, store.edge_index.t().tolist())) == pairs | {
        (v, u) for u, v in pairs
    }


def test_parse_graph6_header_blank_lines_and_small_graphs():
    store = parse_graph6(">>graph6<<?\n\n@\r\n  \nA?\nA_").check()
    assert store.num_nodes.tolist() == [0, 1, 2, 2]
    assert store.num_edges.tolist() == [0, 0, 0, 2]
    assert_same(parse_graph6(b">>graph6<<\n?\n@\nA?\nA_\n"), store)


@pytest.mark.parametrize("text", ["", "\n\n", ">>graph6<<", ">>graph6<<\n"])
def test_parse_graph6_no_graph(text):
    assert len(parse_graph6(text).check()) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Bw\nB", "text, line 2: 3 nodes need 1 characters after their number, got 0"),
        ("Bww", "line 1: 3 nodes need 1 characters after their number, got 2"),
        ("B w", "line 1: byte 2 is 32"),
        ("\n\nBé", "line 3: byte 2 is 195"),
        ("\ud800", "line 1: byte 1 is 237"),
        ("B\x7f", "line 1: byte 2 is 127"),
        ("B~", "line 1: the padding bits are not zero"),
        ("~??", "line 1: the number of nodes is incomplete"),
        ("~~~~~~~", "line 1: the number of nodes is incomplete"),
        ("~~~~~~~~", "line 1: 68719476735 nodes need"),
        (":Bc", "line 1: this is sparse6; convert it"),
        ("&B??", "line 1: this is digraph6"),
        ("Bw\n>>graph6<<Bw", "line 2: byte 1 is 62"),
    ],
    ids=lambda value: ascii(value),
)
def test_parse_graph6_names_the_line(text, message):
    with pytest.raises(FileFormatError, match=re.escape(message)):
        parse_graph6(text, name="text")


def test_read_graph6_names_the_file(tmp_path):
    path = tmp_path / "bad.g6"
    path.write_bytes(b"Bw\n\xff\xfe\n")
    with pytest.raises(FileFormatError, match=r"bad\.g6, line 2: byte 1 is 255"):
        read_graph6(path)
    with pytest.raises(FileFormatError, match="there is no file"):
        read_graph6(tmp_path / "none.g6")


@pytest.mark.parametrize("size", [62, 63, 64, 300])
def test_format_graph6_sizes_like_networkx(size):
    graph = nx.gnp_random_graph(size, 0.1, seed=size)
    text = nx.to_graph6_bytes(graph, header=False).decode()
    store = from_networkx([graph])
    assert format_graph6(store) == text
    assert edge_sets(parse_graph6(text)) == edge_sets(store)


def test_decode_size_of_six_characters():
    digits = int_tensor([63, 63, 0, 0, 1, 0, 0, 0, 5]).numpy()
    size, rest = _decode_size(digits)
    assert (size, rest.tolist()) == (64**3, [5])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1)], "an edge has no reverse edge"),
        ([(0, 0)], "graph 0 has a self loop or an edge twice"),
        ([(0, 1), (1, 0), (0, 1), (1, 0)], "graph 0 has a self loop or an edge twice"),
    ],
)
def test_format_graph6_rejects_directed_and_multigraphs(edges, message):
    ends = int_tensor(edges, 2).t()
    with pytest.raises(GraphError, match=message):
        format_graph6(GraphStore(int_tensor([2]), int_tensor([len(edges)]), ends))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=4))
@settings(deadline=None)
def test_graph6_round_trip(shapes):
    graphs = [nx.gnp_random_graph(size, 0.4, seed=seed) for size, seed in shapes]
    store = from_networkx(graphs)
    text = format_graph6(store)
    lines = [nx.to_graph6_bytes(graph, header=False).decode() for graph in graphs]
    assert text == "".join(lines)
    assert edge_sets(parse_graph6(text).check()) == edge_sets(store)


@given(st.binary(max_size=12))
@settings(deadline=None)
def test_parse_graph6_any_bytes_give_graphs_or_an_error(content):
    message = "text, line 1"
    try:
        parse_graph6(content, name="text").check()
    except FileFormatError as error:
        message = str(error)
    assert message.startswith("text, line ")


def test_write_graph6_round_trip(tmp_path):
    store = parse_graph6("DQc\n?\n@")
    write_graph6(tmp_path / "a.g6", store)
    assert_same(read_graph6(tmp_path / "a.g6"), store)
