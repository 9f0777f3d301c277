import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.table import (
    open_table,
    read_edge_lists,
    read_table,
)


@pytest.fixture
def table(tmp_path):
    def write(content: bytes, name: str = "t.csv"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"a,b\n1,2\n3,4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", {"a": ["1"], "b": ["2"]}),
        (b"a;b\n1;2,5\n", {"a": ["1"], "b": ["2,5"]}),
        (b'a,b\n"x, ""y""","two\nlines"\n', {"a": ['x, "y"'], "b": ["two\nlines"]}),
        ("größe,b\n µ ,\n".encode(), {"größe": ["µ"], "b": [""]}),
        (b"a\n1\n\n \n2\n", {"a": ["1", "2"]}),
        (b"a,b\n,\n1,2\n", {"a": ["", "1"], "b": ["", "2"]}),
        (b"a,b", {"a": [], "b": []}),
        (b"a\tb\n1\t2,5\n", {"a": ["1"], "b": ["2,5"]}),
        (b'a;b;"c, d, e, f"\n1;2;3\n', {"a": ["1"], "b": ["2"], "c, d, e, f": ["3"]}),
        (b"\xef\xbb\xbfsep=;\r\na;b\r\n1;2\r\n", {"a": ["1"], "b": ["2"]}),
    ],
    ids=[
        *("plain", "mark", "semicolon", "quotes", "unicode", "blank", "empty", "none"),
        *("tabs", "quoted commas", "sep"),
    ],
)
def test_read_table_by_hand(table, content, columns):
    assert read_table(table(content)).columns == columns


def test_read_table_of_parquet_keeps_values(tmp_path):
    day = datetime.datetime(2024, 1, 31)
    columns = {" a ": [1, None], "b": ["x", None], "c": [day, day], "d": [[1], []]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet") == (columns, False)


def test_open_table_tells_which_share_is_read(table):
    large = table(b"a,b\n" + 20_000 * b"12345,6\n")
    pq.write_table(pa.table({"a": range(20_000)}), large.with_suffix(".parquet"))
    for path in (large, large.with_suffix(".parquet")):
        with open_table(path) as found:
            shares = [found.share(row.number) for row in found.rows]
        assert shares == sorted(shares)
        assert shares[10_000] == pytest.approx(0.5, abs=0.1)
        assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as Parquet (Parquet file size is 0 bytes)"),
        (b"PAR1" + bytes(40) + b"PAR1", "t.parquet cannot be read as Parquet ("),
        (pa.table({}), "t.parquet is empty; give a table with a header"),
        (pa.table([[1], [2]], ["a", "a"]), "has 2 columns named 'a'; rename all but"),
    ],
    ids=["empty", "zeros", "no columns", "one name"],
)
def test_open_table_of_wrong_parquet_is_a_sentence(tmp_path, content, message):
    path = tmp_path / "t.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(content, path)
    with pytest.raises(FileFormatError) as caught:
        read_table(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"smiles,activity (mean;sd;n)\nCCO,1.0\n", ["smiles", "activity (mean;sd;n)"]),
        (b"smiles;y (a, b, c)\n\n \nCCO;1,5\n", ["smiles", "y (a, b, c)"]),
        (b"a\tb, c, d\n1\t2\n", ["a", "b, c, d"]),
        (b'a,b;c;d\n"x;\ny",2\n', ["a", "b;c;d"]),
        (b"a,b,c;d\n1,2,3;4\n", ["a", "b", "c;d"]),
        (b"a,b;c;d", ["a,b", "c", "d"]),
        (b"a,b;c;d\n1\n", ["a,b", "c", "d"]),
    ],
    ids=[
        *("comma", "semicolon and blank lines", "tab", "quotes", "both fit"),
        *("header only", "none fits"),
    ],
)
def test_the_separator_gives_the_first_row_the_cells_of_the_header(
    table, content, names
):
    with open_table(table(content)) as found:
        assert list(found.names) == names


def test_read_table_of_a_tsv_are_separated_by_tabs(table):
    tabs = read_table(table(b"a,x\tb\n1\t2\n", "t.tsv"))
    assert tabs.columns == {"a,x": ["1"], "b": ["2"]}
    commas = read_table(table(b"a,b\n1,2\n", "t.tsv"))
    assert commas.columns == {"a": ["1"], "b": ["2"]}


def test_only_tables_with_semicolons_may_have_decimal_commas(table):
    assert read_table(table(b"a;b\n1;2,5\n")).decimal_commas
    assert not read_table(table(b'a,b\n1,"2,5"\n')).decimal_commas
    assert not read_table(table(b"a\tb\n1\t2,5\n")).decimal_commas


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; give a table with a header"),
        (b"\n\n", "is empty"),
        (b"a,a\n1,2\n", "has 2 columns named 'a'; rename all but one"),
        (b"a\0b\n", "zero bytes"),
        (b"a\n\xff\xfe\n", "not a CSV table (it is not UTF-8 text)"),
        (b'a\n"open', "not a CSV table"),
        (b"a\n" + b"x" * 200_000, "row 1: not a CSV table"),
        (b"," * 20_000, "has 20001 columns; give at most 10000"),
        (b"a,b\n1\n", "row 1: it has 1 cell, but the header has 2"),
        (b"\x80\x04\x95\x10\x00\x00\x00", "not a CSV table"),
    ],
    ids=range(10),
)
def test_read_table_of_a_damaged_file_is_a_sentence(table, content, message):
    with pytest.raises(FileFormatError) as caught:
        read_table(table(content))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_open_table_marks_rows_of_another_length(table):
    with open_table(table(b"a,b\n1,2\n3\n4,5,6\n")) as found:
        rows = list(found.rows)
    assert [row.number for row in rows] == [1, 2, 3]
    assert [row.cells for row in rows] == [["1", "2"], ["3", ""], ["4", "5"]]
    assert [row.problem is None for row in rows] == [True, False, False]


def read(tmp_path, text):
    (tmp_path / "g.edges").write_text(text)
    return read_edge_lists(tmp_path / "g.edges")


def test_read_edge_lists_one_graph_with_numbers_in_order(tmp_path):
    (graph,) = read(tmp_path, "# comment\n10 2\n2,1\n\n% other\n7\n").values()
    assert list(graph) == ["1", "2", "7", "10"]
    assert {frozenset(edge) for edge in graph.edges} == {
        frozenset(("10", "2")),
        frozenset(("2", "1")),
    }


def test_read_edge_lists_many_graphs_in_the_order_of_the_file(tmp_path):
    graphs = read(tmp_path, "b x y\na u u\nb y z\n")
    assert list(graphs) == ["b", "a"]
    assert [sorted(graph) for graph in graphs.values()] == [["x", "y", "z"], ["u"]]
    assert [graph.number_of_edges() for graph in graphs.values()] == [2, 1]


def test_read_edge_lists_empty_file_has_no_graphs(tmp_path):
    assert read(tmp_path, "") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b c d\n", "words"),
        ("a b c\nd e\n", "words"),
        ("a b\na b c\n", "words"),
        ("0 1 0.5\n", "line 1: 0.5 is a weight and no node; write graphs with weights"),
        ("0 1 2\n0, 1, -.5e-3\n", "line 2: -.5e-3 is a weight"),
        ("graph,Source,target\n0,0,1\n", "line 1: graph Source target is a header"),
        ("0 1 {}\n", r"line 1: \{\} holds .* nx.write_edgelist\(graph, path, data=F"),
        ("0 1 {'weight': 3, 'w': 1}\n", "line 1: {'weight': 3 'w': 1} holds edge attr"),
    ],
)
def test_read_edge_lists_names_the_line_that_is_wrong(tmp_path, text, message):
    with pytest.raises(FileFormatError, match=message):
        read(tmp_path, text)


def test_read_edge_lists_of_bytes_is_a_sentence(tmp_path):
    (tmp_path / "g.edges").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="not UTF-8 text"):
        read_edge_lists(tmp_path / "g.edges")
