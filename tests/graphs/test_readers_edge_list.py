import pytest

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.table import read_edge_lists


def read(tmp_path, text):
    (tmp_path / "g.edges").write_text(text)
    return read_edge_lists(tmp_path / "g.edges")


def test_read_edge_lists_one_graph_with_numbers_in_order(tmp_path):
    (graph,) = read(tmp_path, "# comment\n10 2\n2,1\n\n% other\n7\n")
    assert list(graph) == ["1", "2", "7", "10"]
    assert {frozenset(edge) for edge in graph.edges} == {
        frozenset(("10", "2")),
        frozenset(("2", "1")),
    }


def test_read_edge_lists_many_graphs_in_the_order_of_the_file(tmp_path):
    graphs = read(tmp_path, "b x y\na u u\nb y z\n")
    assert [sorted(graph) for graph in graphs] == [["x", "y", "z"], ["u"]]
    assert [graph.number_of_edges() for graph in graphs] == [2, 1]


def test_read_edge_lists_empty_file_has_no_graphs(tmp_path):
    assert read(tmp_path, "") == []


@pytest.mark.parametrize("text", ["a b c d\n", "a b c\nd e\n", "a b\na b c\n"])
def test_read_edge_lists_names_the_line_with_another_number_of_words(tmp_path, text):
    with pytest.raises(FileFormatError, match="words"):
        read(tmp_path, text)


def test_read_edge_lists_of_bytes_is_a_sentence(tmp_path):
    (tmp_path / "g.edges").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="not UTF-8 text"):
        read_edge_lists(tmp_path / "g.edges")
