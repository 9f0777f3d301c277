import json
import re
from dataclasses import replace

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from gnnak.datasets.own import OwnData, as_rows, load_own
from gnnak.errors import GnnakError
from gnnak.graphs import GraphFile, from_networkx, to_pyg, write_graph6, write_npz
from gnnak.nn.features import Categorical
from gnnak.training.records.results import fingerprint
from tests.training.small_frames import DataFrame

GRAPHS = [nx.path_graph(n) for n in range(2, 12)]
TABLE = "name,smiles,logp,part\n" + "\n".join(
    f"m{i},{'C' * (i + 1)},{i / 2},{'train' if i < 6 else 'val' if i < 8 else 'test'}"
    for i in range(10)
)


def test_load_own_table_finds_the_only_column_of_numbers(write):
    found = load_own(OwnData(write(TABLE)))
    info = found.dataset.info
    assert (info.task, info.metric, info.targets) == ("regression", "mae", ("logp",))
    assert info.node_features.sizes[0] == 119
    assert (info.featurizer, info.name, found.bad) == ("ogb", "m", ())
    assert found.dataset.store.y.tolist() == [i / 2 for i in range(10)]
    assert found.dataset.split.bincount().tolist() == [8, 1, 1]


def test_molecule_table_of_hydroxylamine_alone_is_no_column_of_numbers(write):
    assert len(as_rows(write("smiles,y\nNO,1\nNO,2\n"))) == 2


def test_load_own_splits_by_column_and_counts_folds(write):
    path = write(TABLE)
    found = load_own(OwnData(path, split="column:part"))
    assert found.dataset.split.tolist() == [0] * 6 + [1] * 2 + [2] * 2
    found = load_own(OwnData(path, folds=5))
    assert found.dataset.folds.sum(dim=0).tolist() == [1] * 10
    assert found.dataset.info.protocols == ("held-out",)


def test_load_own_from_three_files(write):
    rows = TABLE.splitlines()
    files = [
        write("\n".join([rows[0], *part]), f"{name}.csv")
        for name, part in (("a", rows[1:7]), ("b", rows[7:9]), ("c", rows[9:]))
    ]
    found = load_own(OwnData(files[0], validation=files[1], test=files[2]))
    assert found.dataset.split.tolist() == [0] * 6 + [1] * 2 + [2] * 2
    assert len(found.dataset.store) == 10


def test_load_own_names_bad_rows_and_leaves_them_out_if_told(write):
    text = TABLE.replace("CCC,1.0", "C(,1.0").replace("CCCC,1.5", "CCCC,")
    path = write(text)
    with pytest.raises(GnnakError) as caught:
        load_own(OwnData(path))
    told = "2 of 10 rows cannot be used (row 3: 'C(' is not a molecule; row 4: logp "
    assert told in str(caught.value)
    found = load_own(OwnData(path, skip_bad=True))
    assert found.bad == ("row 3: 'C(' is not a molecule", "row 4: logp is empty")
    assert found.dataset.store.y.tolist() == [0, 0.5, 2, 2.5, 3, 3.5, 4, 4.5]


def test_load_own_graph6_with_labels(tmp_path, write):
    write_graph6(tmp_path / "g.g6", from_networkx(GRAPHS))
    table = "id,kind\n" + "\n".join(f"{i},{'ab'[i % 2]}" for i in range(10))
    labels = write(table, "labels.csv")
    found = load_own(OwnData(str(tmp_path / "g.g6"), labels=labels, targets=("kind",)))
    assert found.dataset.info.classes == ("a", "b")
    assert found.dataset.store.y.tolist() == [0, 1] * 5
    assert found.dataset.info.node_features == Categorical((1,))


def test_load_own_graph6_without_labels_is_a_sentence(tmp_path, write):
    write_graph6(tmp_path / "g.g6", from_networkx(GRAPHS))
    own = OwnData(str(tmp_path / "g.g6"), targets=("kind",))
    with pytest.raises(GnnakError, match="no kind; give the table that has it with --"):
        load_own(own)
    without_header = write("\n".join("ab" * 5), "labels.csv")
    with pytest.raises(
        GnnakError, match=r"9 rows, but .* 10 graphs; give a header line"
    ):
        load_own(replace(own, labels=without_header))


def test_load_own_graph6_bad_line_is_a_bad_row(tmp_path):
    (tmp_path / "g.g6").write_bytes(b"Bw\nB\nA_\n")
    rows = as_rows(tmp_path / "g.g6")
    assert [row.number for row in rows.bad] == [2]
    assert rows.position.tolist() == [0, 2]


def test_load_own_npz_keeps_its_split(tmp_path):
    store = from_networkx(GRAPHS)
    y = torch.arange(10.0) / 3
    split = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    file = GraphFile(
        type(store)(store.num_nodes, store.num_edges, store.edge_index, y=y), split
    )
    write_npz(tmp_path / "g.npz", file)
    found = load_own(OwnData(str(tmp_path / "g.npz")))
    assert torch.equal(found.dataset.split, split)


def test_load_own_json_graph_and_node_targets(write):
    graphs = [graph.copy() for graph in GRAPHS]
    for number, graph in enumerate(graphs):
        graph.graph["size"] = number + 0.5
        nx.set_node_attributes(graph, {n: n % 2 for n in graph}, "colour")
        nx.set_node_attributes(graph, {n: [n, 1] for n in graph}, "x")
    links = [nx.node_link_data(graph, edges="edges") for graph in graphs]
    path = write(json.dumps(links), "g.json")
    found = load_own(OwnData(path, targets=("size",)))
    assert found.dataset.store.y.tolist() == [n + 0.5 for n in range(10)]
    assert found.dataset.info.node_features == Categorical((12, 3))
    nodes = load_own(OwnData(path, targets=("colour",))).dataset
    assert nodes.info.node_task
    assert nodes.store.y[:5].tolist() == [0, 1, 0, 1, 2 % 2]


def test_load_own_folder_is_sorted_by_number(tmp_path):
    folder = tmp_path / "graphs"
    folder.mkdir()
    for number, data in enumerate(to_pyg(from_networkx(GRAPHS))):
        torch.save(data, folder / f"graph{number}.pt")
    rows = as_rows(folder)
    assert rows.store.num_nodes.tolist() == list(range(2, 12))
    (folder / "note.md").write_text("no graph")
    with pytest.raises(GnnakError, match=r"note\.md is not a graph file"):
        as_rows(folder)


def test_load_own_folder_of_tables_is_one_table_and_missing_files_are_a_sentence(
    tmp_path, write
):
    folder = tmp_path / "parts"
    folder.mkdir()
    header, *rows = TABLE.splitlines()
    (folder / "a.csv").write_text("\n".join([header, *rows[:4]]))
    cells = [row.split(",") for row in rows[4:]]
    columns = dict(zip(header.split(","), zip(*cells, strict=True), strict=True))
    columns["logp"] = tuple(map(float, columns["logp"]))
    pq.write_table(pa.table(columns), folder / "b.parquet")
    options = {"targets": ("logp",), "split": "column:part"}
    whole, found = (
        load_own(OwnData(str(path), **options)).dataset
        for path in (write(TABLE), folder)
    )
    assert fingerprint(found) == fingerprint(whole)
    (tmp_path / "none").mkdir()
    with pytest.raises(GnnakError, match="has no graph files; see docs/formats"):
        as_rows(tmp_path / "none")
    with pytest.raises(GnnakError, match=r"no file or folder .*nothing; check"):
        as_rows(tmp_path / "nothing")


def test_load_own_same_file_is_a_warning_for_validation_and_refused_for_test(
    write, caplog
):
    a, b = write(TABLE, "a.csv"), write(TABLE, "b.csv")
    found = load_own(OwnData(a, targets=("logp",), validation=a))
    assert found.dataset.split.tolist() == [0] * 10 + [1] * 10
    assert "training and validation graphs are in the same file" in caplog.text
    with pytest.raises(GnnakError, match=r"^training and test graphs are in the same"):
        load_own(OwnData(a, validation=b, test=a))
    with pytest.raises(GnnakError, match=r"^validation and test graphs are in the sa"):
        load_own(OwnData(a, validation=b, test=b))


def test_own_data_names_of_task_metric_and_split_have_any_case():
    own = OwnData(task="Binary", metric="ROC-AUC", split="Column:Part")
    assert (own.task, own.metric) == ("classification", "roc-auc")
    assert own.split_column == "Part"
    assert OwnData(split="Scaffold").split == "scaffold"


def test_load_own_list_of_data_with_targets_and_unlike_graphs():
    data = to_pyg(from_networkx(GRAPHS))
    for number, one in enumerate(data):
        one.y = torch.tensor([float(number)])
        one.x = torch.zeros(one.num_nodes, 2)
    data[4].x = torch.zeros(data[4].num_nodes, 3)
    data[5] = "text"
    found = load_own(OwnData(skip_bad=True, task="regression"), data)
    assert [row[:6] for row in found.bad] == ["row 5:", "row 6:"]
    assert found.dataset.store.y.tolist() == [0, 1, 2, 3, 6, 7, 8, 9]


def test_load_own_unknown_targets_are_nan():
    y = np.array([[float(row), np.nan] for row in range(9)] + [[np.nan, 2.0]])
    found = load_own(OwnData(), GRAPHS, y)
    assert found.dataset.store.y.shape == (10, 2)
    assert found.dataset.store.y.isnan().sum() == 10


def test_load_own_targets_choose_columns_of_y_by_name(tmp_path):
    y = torch.rand(10, 2)
    write_npz(tmp_path / "g.npz", GraphFile(replace(from_networkx(GRAPHS), y=y)))
    for names, wanted in [
        (("y1",), y[:, 1]),
        (("y1", "y0"), y.flip(1)),
        (("mass", "rest"), y),
    ]:
        found = load_own(OwnData(str(tmp_path / "g.npz"), targets=names)).dataset
        assert found.info.targets == names
        assert torch.equal(found.store.y, wanted)
    frame = DataFrame({"mass": y[:, 0].numpy(), "rest": y[:, 1].numpy()})
    found = load_own(OwnData(targets=("rest", "mass")), GRAPHS, frame).dataset
    assert torch.equal(found.store.y, y.flip(1))
    with pytest.raises(GnnakError, match=r"1 name; .* some of: y0, y1"):
        load_own(OwnData(targets=("mass",)), GRAPHS, y)


def test_load_own_names_the_node_or_edge_that_is_not_finite(tmp_path):
    store = from_networkx(GRAPHS)
    x, weight = (
        torch.ones(int(store.node_ptr[-1]), 2),
        torch.ones(store.num_edges.sum()),
    )
    x[store.node_ptr[3] + 1, 1] = torch.nan
    first = int(store.edge_ptr[4])
    weight[first] = torch.inf
    ends = " to ".join(map(str, store.edge_index[:, first].tolist()))
    for change, place in [
        ({"x": x}, "x of node 1 of graph 3"),
        (
            {"edge_attr": weight[:, None]},
            f"edge_attr of the edge from {ends} of graph 4",
        ),
    ]:
        path = tmp_path / "g.npz"
        y = torch.arange(10.0)
        write_npz(path, GraphFile(replace(store, y=y, **change)))
        with pytest.raises(GnnakError, match=rf"g\.npz: {place} .* is not a finite"):
            load_own(OwnData(str(path)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ("logq",)}, "did you mean 'logp'"),
        ({"smiles": "smile"}, "did you mean 'smiles'"),
        (
            {"targets": ("logp,part",)},
            "'logp,part', which are several names; repeat --t",
        ),
        ({"split": "column:nothing"}, "there is no column 'nothing' in"),
        ({"metric": "roc-auc"}, "does not fit a regression task"),
        ({"metric": "maee"}, "did you mean 'mae'"),
        ({"metric": "acc"}, "did you mean 'accuracy'"),
        (
            {"targets": ("logp", "part")},
            "part has text such as .test., but logp has numbers",
        ),
        ({"split": "files"}, "split 'files' needs files"),
        ({"labels": "nothing.csv"}, "there is no file"),
        ({"folds": 2}, "at least 3"),
        ({"graphs": 2}, "at least three"),
    ],
    ids=str,
)
def test_load_own_wrong_option_is_a_sentence(write, options, message):
    with pytest.raises(GnnakError, match=message) as caught:
        load_own(OwnData(write(TABLE), **options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("good", "message"),
    [
        (0, "m.csv has no usable rows (row 1: "),
        (2, "m.csv has 2 usable graphs (8 rows left out, such as row 3: "),
    ],
)
def test_load_own_says_why_too_few_rows_are_left(good, message, write):
    rows = [f"{'C' * (i + 1)},{i if i < good else 'many'}" for i in range(10)]
    own = OwnData(write("\n".join(["smiles,mass", *rows])), skip_bad=True)
    with pytest.raises(GnnakError, match=re.escape(message)):
        load_own(replace(own, targets=("mass",), task="regression"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "guess"}, "task is 'guess'"),
        ({"split": "sideways"}, "split is 'sideways'"),
        ({"split": "random", "test": "t.csv"}, "leave out one of both"),
    ],
)
def test_own_data_checks_its_options(options, message):
    with pytest.raises(GnnakError, match=message):
        OwnData("m.csv", **options)


def test_own_data_knows_other_names_of_tasks():
    assert OwnData(task="binary").task == OwnData(task="multiclass").task


def test_load_own_files_without_a_test_file(write):
    train, validation = write(TABLE, "a.csv"), write(TABLE, "b.csv")
    found = load_own(OwnData(train, targets=("logp",), validation=validation))
    counts = found.dataset.split.bincount(minlength=3).tolist()
    assert counts[0] == counts[1] > 0
    assert counts[2] == 0


def edge_lists(labels):
    """Files of three rings, in the order c, a, b, and a table of labels."""
    lines = [f"{n} {i} {(i + 1) % 4}" for n in "cab" for i in range(4)]
    return "\n".join(lines), "graph,y\n" + "\n".join(labels)


def test_load_own_finds_labels_by_the_names_of_an_edge_list(write):
    graphs, table = edge_lists(["a,0.5", "b,1.5", "d,4.5", "c,2.5"])
    own = OwnData(write(graphs, "g.edges"), labels=write(table, "labels.csv"))
    assert load_own(own).dataset.store.y.tolist() == [2.5, 0.5, 1.5]


@pytest.mark.parametrize(
    ("labels", "count"),
    [(["a,1", "b,2", "d,3"], "0 rows"), (["a,1", "b,2", "c,3", "c,4"], "2 rows")],
)
def test_load_own_refuses_labels_without_a_name_of_an_edge_list(write, labels, count):
    graphs, table = edge_lists(labels)
    own = OwnData(write(graphs, "g.edges"), labels=write(table, "labels.csv"))
    with pytest.raises(GnnakError, match=f"{count} for the graph 'c' in the column gr"):
        load_own(own)


def test_load_own_finds_labels_by_position_without_names(write):
    graphs, table = edge_lists(["7,0.5", "8,1.5", "9,2.5"])
    own = OwnData(write(graphs, "g.edges"), labels=write(table, "labels.csv"))
    assert load_own(own).dataset.store.y.tolist() == [0.5, 1.5, 2.5]


def test_load_own_refuses_a_regression_of_words_in_one_sentence(write):
    rows = [f"{'C' * (i + 1)},{['low', 'high'][i % 2]}" for i in range(10)]
    own = OwnData(write("\n".join(["smiles,kind", *rows])), task="regression")
    with pytest.raises(
        GnnakError, match=r"^kind has text such as 'low' and no numbers"
    ):
        load_own(own)
