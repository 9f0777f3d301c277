import io
import os
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.memory import PeakMemory
from gnnak.device import STATUS
from gnnak.errors import FileFormatError, GraphError, OptionError
from gnnak.graphs import GraphFile, GraphStore, read_npz, write_npz
from gnnak.graphs.readers.npz import check_entries
from tests.graphs.graph_strategies import assert_same, int_tensor, stores

EACH = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PLAIN = {
    "num_nodes": np.array([3, 1, 0], np.uint8),
    "num_edges": np.array([3, 0, 0], np.uint8),
    "edge_index": np.array([[0, 2, 1], [1, 1, 1]], np.uint8),
    "x": np.array([[4], [5], [6], [7]], np.uint8),
    "edge_attr": np.array([[1], [2], [3]], np.uint8),
    "y": np.array([0.5, 1.5, 2.5], np.float32),
    "split": np.array([0, 1, 0], np.uint8),
    "folds": np.array([[0, 1, -1], [1, 0, 0]], np.int8),
    "atom_names": np.array(["C", "N"]),
}


def save(path, without=(), **changes):
    arrays = {k: v for k, v in {**PLAIN, **changes}.items() if k not in without}
    np.savez(path, **arrays)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "graphs.npz"


def test_read_npz_all_fields_by_hand(path):
    file = read_npz(save(path)).check()
    store = file.store
    assert store.num_nodes.tolist() == [3, 1, 0]
    assert store.num_edges.tolist() == [5, 0, 0]
    assert store.edge_index.tolist() == [[0, 1, 2, 1, 1], [1, 0, 1, 2, 1]]
    assert store.x.tolist() == [[4], [5], [6], [7]]
    assert store.edge_attr.tolist() == [[1], [1], [2], [2], [3]]
    assert store.y.tolist() == [0.5, 1.5, 2.5]
    assert (store.x.dtype, store.y.dtype) == (torch.long, torch.float)
    assert file.split.tolist() == [0, 1, 0]
    assert file.folds.tolist() == [[0, 1, -1], [1, 0, 0]]
    assert file.names == {"atom_names": ("C", "N")}


def test_read_npz_absent_keys(path):
    save(path, without=("x", "edge_attr", "y", "split", "folds", "atom_names"))
    file = read_npz(str(path))
    assert file.store.x.tolist() == [[0], [0], [0], [0]]
    assert file.store.x.dtype == torch.long
    assert (file.store.edge_attr, file.store.y) == (None, None)
    assert (file.split, file.folds, file.names) == (None, None, {})


def test_read_npz_adds_no_reverse_edges_to_directed_graphs(path):
    store = read_npz(save(path, directed=np.array(True))).store
    assert store.edge_index.tolist() == [[0, 2, 1], [1, 1, 1]]


def test_read_npz_refuses_both_directions_of_an_edge(path):
    both = np.array([[0, 2, 1], [1, 1, 2]])
    with pytest.raises(FileFormatError, match="both directions of the edge between no"):
        read_npz(save(path, edge_index=both))
    store = read_npz(save(path, edge_index=both, directed=np.array(True))).store
    assert store.edge_index.tolist() == both.tolist()
    parallel = np.array([[0, 0, 1], [1, 1, 1]])
    store = read_npz(save(path, edge_index=parallel)).store
    assert store.edge_index.tolist() == [[0, 1, 0, 1, 1], [1, 0, 1, 0, 1]]


def test_write_npz_of_parallel_edges_in_both_directions(path):
    edge_index = int_tensor([[0, 1, 1, 0], [1, 0, 0, 1]])
    store = GraphStore(int_tensor([2]), int_tensor([4]), edge_index)
    write_npz(path, GraphFile(replace(store, x=torch.zeros(2, 1))))
    assert read_npz(path).store.edge_index.tolist() == edge_index.tolist()


def test_read_npz_without_edges_only_where_allowed(path):
    save(path, without=("num_edges", "edge_index", "edge_attr"))
    with pytest.raises(FileFormatError) as caught:
        read_npz(path)
    assert "the key num_edges is missing; add it or pass allow" in str(caught.value)
    store = read_npz(path, allow_no_edges=True).store.check()
    assert store.num_edges.tolist() == [0, 0, 0]
    assert store.x.tolist() == [[4], [5], [6], [7]]


def test_read_npz_big_endian_and_bools(path):
    y = PLAIN["y"].astype(">f8")
    file = read_npz(save(path, y=y, x=np.array([[True]] * 4)))
    assert (file.store.y.dtype, file.store.x.dtype) == (torch.double, torch.long)
    assert file.store.y.tolist() == [0.5, 1.5, 2.5]


def test_graph_file_parts_and_folds(path):
    file = read_npz(save(path))
    assert file.indices("train").tolist() == [0, 2]
    assert file.indices("test").tolist() == []
    assert [part.tolist() for part in file.fold(0)] == [[0], [1]]
    with pytest.raises(GraphError, match="there is no fold 2; these graphs have 2"):
        file.fold(2)
    with pytest.raises(OptionError, match="use one of: train, validation, test"):
        file.indices("dev")
    with pytest.raises(GraphError, match="have no split"):
        GraphFile(file.store).indices("train")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"num_nodes": np.array([3, -1, 0])}, "num_nodes[1] is -1"),
        ({"num_nodes": np.array([3, 2, 0])}, "x has 4 rows; give 5"),
        ({"num_nodes": np.array([1.0, 2.0, 3.0])}, "num_nodes has dtype float64"),
        ({"num_nodes": np.array([[3], [1], [0]])}, "num_nodes is torch.int64 of shape"),
        ({"num_nodes": np.array(4)}, "num_nodes is torch.int64 of shape []"),
        ({"num_nodes": np.full(3, 2**64 - 1, np.uint64)}, "num_nodes contains 1844"),
        ({"num_nodes": np.full(3, 2**62)}, "num_nodes contains 4611"),
        ({"num_edges": np.array([3, 0])}, "num_nodes has 3 entries and num_edges 2"),
        ({"num_edges": np.array([2, 0, 0])}, "num_edges adds up to 2"),
        ({"edge_index": np.zeros((3, 2), int)}, "edge_index has shape [3, 2]"),
        ({"edge_index": np.full((2, 3), 3)}, "edge_index joins nodes 3 and 3 in gr"),
        ({"edge_index": np.full((2, 3), -1)}, "edge_index joins nodes -1 and -1"),
        ({"edge_index": np.zeros((2, 3))}, "edge_index has dtype float64"),
        ({"x": np.zeros(4)}, "x has shape [4]; give [n, c]"),
        ({"x": np.zeros((4, 1), complex)}, "x has dtype complex128; write numbers;"),
        ({"x": np.array([["a"]] * 4)}, "x has dtype <U1"),
        ({"edge_attr": np.zeros((6, 1))}, "edge_attr has 6 rows; give 3"),
        ({"y": np.zeros(4)}, "y has 4 rows; give 3, one for every graph, or se"),
        ({"y": np.zeros(3), "node_targets": np.array(True)}, "y has 3 rows; give 4"),
        ({"y": np.array([None] * 3)}, "y cannot be read: it has Python objects"),
        ({"y": np.array(["a"] * 300, object)}, "y cannot be read: it has Python obj"),
        ({"split": np.array([0, 1, 3])}, "split holds 3; only 0 to 2"),
        ({"split": np.array([0, 1])}, "split has shape [2]; give [3]"),
        ({"folds": np.array([0, 1, 1])}, "folds has shape [3]; give [k, 3]"),
        ({"folds": np.array([[-2, 1, 1]])}, "folds holds -2; only -1 to 1"),
        ({"directed": np.array([1])}, "directed has dtype int64 and shape [1]"),
        ({"atom_names": np.array([1, 2])}, "atom_names has dtype int64"),
        ({"edge_atr": np.zeros((3, 1))}, "unknown key edge_atr; did you mean edge_att"),
        ({"zzz": np.zeros(1)}, "unknown key zzz; see docs/formats.md#npz."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_read_npz_names_file_and_key(path, change, key):
    with pytest.raises(FileFormatError) as caught:
        read_npz(save(path, **change))
    message = str(caught.value)
    assert str(path) in message
    assert key in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (2**60, "num_nodes adds up to 11529"),
        (2**33, "adds up to 8589934592, so its arrays need 68.7 GB of memory"),
    ],
)
def test_read_npz_more_nodes_than_a_small_file_describes(path, nodes, message):
    none, many = np.zeros((2, 0), int), np.array([nodes, 0, 0])
    save(path, without=("x", "edge_attr"), num_nodes=many, num_edges=many * 0,
         edge_index=none)  # fmt: skip
    with pytest.raises(FileFormatError, match=message):
        read_npz(path)


@pytest.mark.parametrize("key", ["num_nodes", "num_edges", "edge_index"])
def test_read_npz_names_a_missing_key(path, key):
    with pytest.raises(FileFormatError, match=f"graphs.npz: the key {key} is missing"):
        read_npz(save(path, without=(key,)))
    if key != "num_nodes":
        with pytest.raises(FileFormatError, match=key):
            read_npz(path, allow_no_edges=True)


def test_read_npz_says_what_is_no_file(tmp_path, path):
    with pytest.raises(FileFormatError, match="is a folder"):
        read_npz(tmp_path)
    with pytest.raises(FileFormatError, match="there is no file"):
        read_npz(path)
    for content in (b"", b"not a zip", b"PK\x03\x04", b"\x80\x04N."):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"graphs.npz is not an npz file"):
            read_npz(path)
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FileFormatError, match="contains a single array"):
        read_npz(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"hello")
    with pytest.raises(FileFormatError, match="x is not an array"):
        read_npz(path)


@pytest.mark.parametrize(
    ("key", "kind", "length", "message"),
    [
        ("num_nodes", "<i8", 1 << 50, "num_nodes cannot be read"),
        ("atom_names", "<U0", 1 << 40, r"its arrays need .* GB of memory"),
    ],
)
def test_read_npz_header_that_promises_too_much(path, key, kind, length, message):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": kind, "fortran_order": False, "shape": (length,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{key}.npy", header.getvalue())
    with pytest.raises(FileFormatError, match=message):
        read_npz(path)


def bomb(path, **shapes):
    """Write an npz file of compressed zeros, which take about 1000 times the space."""
    arrays = {**PLAIN, **{key: np.zeros(s, np.uint8) for key, s in shapes.items()}}
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.heavy
def test_read_npz_refuses_a_decompression_bomb_before_it_expands(path):
    bomb(path, x=(2**28, 1))
    assert path.stat().st_size < 300_000
    with PeakMemory() as peak, pytest.raises(FileFormatError) as caught:
        read_npz(path)
    assert str(caught.value) == (
        f"{path}: its arrays need 2.1 GB of memory, too much for a file of 0.3 MB; if "
        "the data are real, write the file without compression, with numpy.savez."
    )
    assert not STATUS.exists() or peak.megabytes < 50


@pytest.mark.parametrize(
    "change",
    [
        {"x": np.zeros((0, 2**40))},
        {"x": np.zeros((2**40, 0))},
        {"folds": np.zeros((2**40, 0), int)},
    ],
    ids=["no rows", "no columns", "no graphs"],
)
def test_read_npz_refuses_shapes_that_cost_nothing_in_the_file(path, change):
    with pytest.raises(FileFormatError, match=r"its arrays need .* GB of memory"):
        read_npz(save(path, **change))


def test_read_npz_accepts_constant_columns_of_real_data(path):
    count = 2**20
    bomb(path, x=(count, 1), num_nodes=(count,), num_edges=(count,), y=(count,))
    arrays = dict(np.load(path)) | {"num_nodes": np.ones(count, np.uint8)}
    for key in ("edge_index", "edge_attr", "split", "folds"):
        arrays.pop(key)
    np.savez_compressed(path, **arrays, edge_index=np.zeros((2, 0), np.uint8))
    assert len(read_npz(path).store) == count


def test_read_npz_required_keys(path):
    with pytest.raises(FileFormatError, match=r"graphs\.npz: the key x is missing; ad"):
        read_npz(save(path, without=("x",)), required=("x",))


@given(st.data())
@EACH
def test_read_npz_damaged_bytes_raise_an_error(tmp_path, data):
    path = save(tmp_path / "damaged.npz")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut] if data.draw(st.booleans()) else content)
    message = "damaged.npz is fine"
    try:
        read_npz(path).check()
    except FileFormatError as error:
        message = str(error)
    assert "damaged.npz" in message
    assert "\n" not in message


@given(stores(undirected=True), st.data())
@EACH
def test_write_npz_undirected_round_trip_is_exact(tmp_path, store, data):
    if store.x is None:
        store = replace(store, x=torch.zeros(int(store.num_nodes.sum()), 1).long())
    size = len(store)
    split = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    names = {"atom_names": ("C", "Ω")}
    file = GraphFile(store, int_tensor(split), int_tensor([split]).clamp(max=1), names)
    write_npz(tmp_path / "a.npz", file)
    assert_same(read_npz(tmp_path / "a.npz"), file)
    assert os.listdir(tmp_path) == ["a.npz"]


@given(stores())
@EACH
def test_write_npz_any_store_comes_back_up_to_edge_order(tmp_path, store):
    write_npz(tmp_path / "a.npz", GraphFile(store))
    back = read_npz(tmp_path / "a.npz").store
    assert sorted_edges(back) == sorted_edges(store)
    assert store.y is None or back.y.tolist() == store.y.tolist()
    assert back.node_targets == store.node_targets


def sorted_edges(store: GraphStore) -> list:
    graphs = []
    for one in store:
        attr = [None] * one.num_edges if one.edge_attr is None else one.edge_attr
        rows = zip(one.edge_index.t().tolist(), attr, strict=True)
        edges = sorted((*ends, a if a is None else a.tolist()) for ends, a in rows)
        graphs.append((one.num_nodes, edges))
    return graphs


def test_write_npz_few_bytes_and_the_same_bytes_again(path):
    file = read_npz(save(path))
    write_npz(path, replace(file, names={}))
    with np.load(path) as arrays:
        assert {array.dtype.itemsize for array in arrays.values()} <= {1, 4}
        assert arrays["edge_index"].tolist() == PLAIN["edge_index"].tolist()
    first = path.read_bytes()
    write_npz(path, read_npz(path))
    assert path.read_bytes() == first


def test_write_npz_wide_numbers(path):
    y = torch.tensor([-1, 2**40, -(2**62)])
    file = GraphFile(replace(read_npz(save(path)).store, y=y))
    write_npz(path, file)
    assert read_npz(path).store.y.tolist() == y.tolist()


def test_write_npz_unsound_input_leaves_the_old_file(path):
    file = read_npz(save(path))
    before = path.read_bytes()
    with pytest.raises(GraphError, match="split has shape"):
        write_npz(path, replace(file, split=int_tensor([0])))
    with pytest.raises(GraphError, match=r"y has dtype torch\.bfloat16"):
        write_npz(path, GraphFile(replace(file.store, y=file.store.y.bfloat16())))
    with pytest.raises(GraphError, match="keys must end in '_names'"):
        write_npz(path, replace(file, names={"x": ("C",)}))
    assert path.read_bytes() == before


def test_write_npz_says_that_the_folder_is_missing(tmp_path):
    file = GraphFile(GraphStore(int_tensor([1]), int_tensor([0]), int_tensor([[], []])))
    with pytest.raises(FileFormatError, match="cannot be written: No such file"):
        write_npz(tmp_path / "missing" / "a.npz", file)


def archive(names: list[str], comment: bytes = b"") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in names:
            file.writestr(name, b"content")
        file.comment = comment
    return content.getvalue()


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b", "c"]])
@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_a_whole_archive_is_accepted(names, comment):
    check_entries(io.BytesIO(archive(names, comment)))


def test_a_member_that_damage_hides_is_noticed():
    content = bytearray(archive(["a", "b"]))
    # The length of the comment of "a" in the list: its "comment" then hides "b".
    place = content.index(b"PK\x01\x02") + 32
    content[place] += 47
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as file:
        assert file.namelist() == ["a"]
    with pytest.raises(GraphError, match="it lists 1 arrays, but should have 2"):
        check_entries(io.BytesIO(bytes(content)))
