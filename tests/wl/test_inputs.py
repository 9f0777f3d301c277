from collections import Counter
from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from gnnak.errors import FileFormatError, GraphError, kind_of
from gnnak.graphs import format_graph6, from_pyg
from gnnak.graphs.named import rook, shrikhande
from gnnak.wl import TESTS, distinguishes, explain, partition
from gnnak.wl.inputs import read_graph, read_union
from gnnak.wl.interning import rank, rank_multisets, rank_pairs, rank_rows
from tests.wl.plain import classes

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_read_graph_reads_all_kinds_alike():
    kinds = [
        nx.path_graph("abc"),
        Data(edge_index=PATH, num_nodes=3),
        (PATH, 3),
        "Bo",
        b"Bo",
    ]
    for test in TESTS:
        assert partition(test, kinds) == [0] * 5


def test_a_path_is_read_as_a_file_of_one_graph(tmp_path):
    path = tmp_path / "a.edges"
    path.write_text("0 1\n1 2\n")
    assert partition("1-wl", [path, str(path), "Bo"]) == [0, 0, 0]
    assert explain("1-wl", path, "Bw").distinguished
    path.write_text("0 1 2\n1 1 2\n")
    with pytest.raises(
        GraphError, match=r"a\.edges holds 2 graphs; give a file of one"
    ):
        distinguishes("1-wl", path, "Bo")
    with pytest.raises(FileFormatError, match=r"no file or folder none\.g6; check"):
        distinguishes("1-wl", "none.g6", "Bo")


@pytest.mark.parametrize("graphs", ["a.g6", b"Bw", Path("a.g6"), nx.path_graph(2), 3])
def test_one_graph_in_place_of_several_is_refused_in_one_sentence(graphs):
    told = f"graphs is {kind_of(graphs)}; give a list of graphs, such as "
    with pytest.raises(GraphError, match=told):
        partition("1-wl", graphs)


@pytest.mark.parametrize("text", ["CCO", "c1ccccc1", "CC/C=C/C", "CC.O"])
def test_a_smiles_string_is_answered_with_the_function_that_reads_it(text):
    told = r"; for a SMILES string, give torch_geometric\.utils\.from_smiles\(text\)\.$"
    with pytest.raises(FileFormatError, match=told) as raised:
        distinguishes("1-wl", text, "Bo")
    assert text in str(raised.value)


def test_read_union_writes_out_the_record():
    union = read_union([(PATH, 3), nx.DiGraph([(0, 1)])])
    assert union.num_graphs == 2
    assert union.graph.tolist() == [0, 0, 0, 1, 1]
    assert union.node_color.tolist() == [0] * 5
    assert union.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert union.edge_color.tolist() == [2, 2, 2, 2, 1, 0]
    assert union.forward.tolist() == [True] * 5 + [False]


def test_select_repeats_and_reorders_graphs():
    union = read_union([(PATH, 3), nx.path_graph(2)])
    chosen = union.select(torch.tensor([1, 0, 1]))
    assert chosen.graph.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert chosen.edge_index.tolist() == [
        [0, 1, 2, 3, 3, 4, 5, 6],
        [1, 0, 3, 2, 4, 3, 6, 5],
    ]


@pytest.mark.parametrize("test", TESTS)
def test_node_labels_are_initial_colours(test):
    first, second = nx.path_graph(3), nx.path_graph(3)
    nx.set_node_attributes(first, {0: "a", 1: "b", 2: "b"}, "label")
    nx.set_node_attributes(second, {0: "b", 1: "a", 2: "b"}, "label")
    assert distinguishes(test, first, second)
    assert not distinguishes(test, first, second, labels=False)


@pytest.mark.parametrize("test", TESTS)
def test_edge_labels_are_initial_colours(test):
    x = torch.zeros(4, 1)
    ends = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    first = Data(x, ends, torch.tensor([0, 0, 1, 1, 0, 0])[:, None])
    second = Data(x, ends, torch.tensor([0, 0, 0, 0, 1, 1])[:, None])
    assert distinguishes(test, first, second)
    assert not distinguishes(test, first, second, labels=False)


@pytest.mark.parametrize("test", TESTS)
def test_direction_self_loops_and_duplicates_count(test):
    edge = torch.tensor([[0, 1], [1, 0]])
    arc = torch.tensor([[0], [1]])
    twice = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]])
    loop = torch.tensor([[0, 1, 0], [1, 0, 0]])
    kinds = [(ends, 2) for ends in (edge, arc, twice, loop)]
    assert partition(test, kinds, undirected=False) == [0, 1, 2, 3]
    assert partition(test, kinds, undirected=True) == [0, 0, 1, 2]


def once(graph):
    """The same graph with each undirected edge in one direction only."""
    ends, size = graph
    return ends[:, ends[0] < ends[1]], size


def as_data(graph):
    return Data(edge_index=graph[0], num_nodes=graph[1])


def as_networkx(graph):
    built = nx.empty_graph(graph[1])
    built.add_edges_from(graph[0].T.tolist())
    return built


FORMS = {
    "tensors": lambda graph: graph,
    "tensors, once": once,
    "PyG": as_data,
    "PyG, once": lambda graph: as_data(once(graph)),
    "graph6": lambda graph: format_graph6(from_pyg([as_data(graph)])),
    "networkx": as_networkx,
    "networkx, directed": lambda graph: as_networkx(once(graph)).to_directed(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("test", "apart"),
    [
        ("1-wl", False),
        ("3-wl", False),
        ("subgraph-1-wl*", False),
        ("subgraph-1-wl", True),
        ("gin-ak+", False),
        ("ppgn-ak+", True),
        ("sswl+-gin", False),
    ],
)
def test_rook_and_shrikhande_get_the_same_answer_in_every_form(test, apart, form):
    first, second = (FORMS[form](graph) for graph in (rook(), shrikhande()))
    assert distinguishes(test, first, second, undirected=True) is apart
    assert not distinguishes(test, first, FORMS["graph6"](rook()), undirected=True)


def test_edges_in_one_direction_only_are_directed_with_a_warning():
    first, second = once(rook()), once(shrikhande())
    told = r"every edge of graphs 0, 1 comes in one direction only.*undirected=True"
    for call in (distinguishes, explain):
        with pytest.warns(UserWarning, match=told) as caught:
            call("1-wl", first, second)
        assert [each.filename for each in caught] == [__file__]
    with pytest.warns(UserWarning, match="every edge of graph 1 comes"):
        partition("1-wl", [rook(), as_data(first), nx.DiGraph([(0, 1)])])
    assert distinguishes("1-wl", first, second, undirected=False)


def test_graphs_with_an_edge_in_both_directions_or_none_give_no_warning():
    mixed = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]])
    loop = torch.tensor([[1], [1]])
    assert partition("1-wl", [(mixed, 3), (loop, 3), (PATH[:, :0], 3)]) == [0, 1, 2]


def test_undirected_adds_the_missing_reverse_edges_with_their_labels():
    x, ends = torch.zeros(3, 1), torch.tensor([[0, 1, 2, 2], [1, 2, 1, 2]])
    label = torch.tensor([[5], [6], [7], [8]])
    whole = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    wanted = Data(x, whole, torch.tensor([[5], [5], [6], [7], [8]]))
    found = read_union([Data(x, ends, label), wanted], undirected=True)
    assert partition("1-wl", [Data(x, ends, label), wanted], undirected=True) == [0, 0]
    assert found.select(torch.tensor([0])).forward.all()


@pytest.mark.parametrize("test", TESTS)
def test_corner_cases_run(test, corner_case):
    assert partition(test, [corner_case] * 2, undirected=False) == [0, 0]


@pytest.mark.parametrize("test", TESTS)
def test_no_graphs_and_empty_graphs(test):
    assert partition(test, []) == []
    assert partition(test, [nx.Graph(), nx.Graph(), nx.path_graph(1)]) == [0, 0, 1]


def test_wrong_graphs_are_one_clear_sentence():
    with pytest.raises(GraphError, match="a graph is an int; give a networkx graph"):
        read_graph(3)
    with pytest.raises(FileFormatError, match="graph6"):
        read_graph("no graph6 at all")
    with pytest.raises(GraphError, match="holds 2 graphs; give one string a graph"):
        read_graph("Bo\nBo")
    with pytest.raises(GraphError, match="x holds NaN"):
        read_graph(Data(torch.tensor([[float("nan")]]), PATH[:, :0]))


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ([1], "graph 1 has a label of type list; use numbers, strings, bytes"),
        (torch.tensor(1), "graph 1 has a label of type Tensor; use numbers"),
        ((1, (object(),)), "graph 1 has a label of type object; use numbers"),
        (float("nan"), "graph 1 has NaN in a label, which equals no label; replace"),
        (("a", float("nan")), "graph 1 has NaN in a label"),
    ],
)
@pytest.mark.parametrize("kind", ["node", "edge"])
def test_labels_without_a_value_to_compare_are_refused(label, sentence, kind):
    bad = nx.path_graph(2)
    (bad.nodes[0] if kind == "node" else bad.edges[0, 1])["label"] = label
    with pytest.raises(GraphError, match=sentence):
        read_union([nx.path_graph(2), bad])
    assert read_union([bad], labels=False).num_nodes == 2


@pytest.mark.parametrize("label", [1, 0.5, True, "a", b"a", None, (1, ("a", None))])
def test_labels_with_a_value_are_read(label):
    many = [nx.path_graph(2) for _ in range(2)]
    for graph in many:
        nx.set_node_attributes(graph, label, "label")
    assert partition("1-wl", many) == [0, 0]


numbers = st.integers(0, 2**61)


@given(st.lists(numbers))
def test_rank_is_the_place_among_the_distinct_values(values):
    order = sorted(set(values))
    expected = [order.index(value) for value in values]
    assert rank(torch.tensor(values, dtype=torch.long)).tolist() == expected


@given(st.lists(st.tuples(numbers, numbers), min_size=1))
def test_rank_pairs_orders_pairs_even_where_keys_would_overflow(pairs):
    first, second = torch.tensor(pairs).T
    order = sorted(set(pairs))
    assert rank_pairs(first, second).tolist() == [order.index(pair) for pair in pairs]


def test_rank_rows_of_no_rows_is_empty():
    none = torch.zeros(0, dtype=torch.long)
    assert rank_rows(none, none, none).tolist() == []


@given(st.lists(st.lists(st.integers(0, 5), max_size=9), min_size=1, max_size=12))
def test_rank_multisets_are_equal_iff_the_multisets_are(rows):
    row = torch.tensor([i for i, r in enumerate(rows) for _ in r], dtype=torch.long)
    value = torch.tensor([v for r in rows for v in r], dtype=torch.long)
    ranks = rank_multisets(row, value, len(rows)).tolist()
    assert classes(ranks) == classes([Counter(r) for r in rows])


def test_rank_multisets_keeps_counts_lengths_and_empty_rows_apart():
    row = torch.tensor([0, 1, 1, 2, 2, 3])
    value = torch.tensor([7, 7, 7, 7, 9, 9])
    assert rank_multisets(row, value, 6).unique().numel() == 5


def test_rank_multisets_of_one_long_row():
    value = torch.randperm(1000)
    row = torch.tensor([0, 1]).repeat_interleave(1000)
    ranks = rank_multisets(row, torch.cat([value, value.flip(0)]), 2)
    assert ranks.tolist() == [0, 0]
