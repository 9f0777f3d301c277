import os
import pickle
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import from_pyg, to_pyg
from gnnak.graphs.readers.pyg import _edges, read_fields, read_pyg
from tests.graphs.graph_strategies import assert_same, int_tensor, stores

EDGE = int_tensor([[0, 1], [1, 0]])


def test_from_pyg_all_fields_by_hand():
    first = Data(x=torch.ones(2, 1), edge_index=EDGE, edge_attr=EDGE, y=1.5)
    none = EDGE[:, :0], int_tensor([], 2)
    last = Data(torch.zeros(1, 1), *none, y=torch.tensor(2.5))
    store = from_pyg([first, last])
    assert store.num_nodes.tolist() == [2, 1]
    assert store.num_edges.tolist() == [2, 0]
    assert store.edge_index.tolist() == [[0, 1], [1, 0]]
    assert store.x.tolist() == [[1], [1], [0]]
    assert store.edge_attr.tolist() == [[0, 1], [1, 0]]
    assert store.y.tolist() == [1.5, 2.5]
    assert first.y == 1.5


def test_from_pyg_takes_vectors_as_one_column():
    vectors = Data(int_tensor([3, 4]), EDGE, torch.tensor([0.5, 1]))
    columns = Data(int_tensor([[5]]), EDGE[:, :0], torch.ones(0, 1))
    store = from_pyg([vectors, columns])
    assert store.x.tolist() == [[3], [4], [5]]
    assert store.edge_attr.tolist() == [[0.5], [1]]
    assert vectors.x.shape == (2,)
    with pytest.raises(GraphError, match="graph 0: edge_attr has 3 rows; give 2"):
        from_pyg([Data(num_nodes=2, edge_index=EDGE, edge_attr=torch.ones(3))])


def test_from_pyg_leaves_out_what_it_does_not_name():
    data = Data(num_nodes=2, pos=torch.ones(2, 3), edge_weight=torch.ones(2))
    assert repr(from_pyg([data])) == repr(from_pyg([Data(num_nodes=2)]))


def test_from_pyg_empty_things():
    assert len(from_pyg([]).check()) == 0
    store = from_pyg([Data(num_nodes=0), Data(num_nodes=2)])
    assert store.num_nodes.tolist() == [0, 2]
    assert store.num_edges.tolist() == [0, 0]


def test_from_pyg_node_targets():
    graphs = [Data(num_nodes=1, y=int_tensor([y])) for y in (4, 5)]
    assert not from_pyg(graphs).node_targets
    assert from_pyg(graphs, node_targets=True)[[1]].y.tolist() == [5]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": None, "num_nodes": 2}, "x is torch.float32 [*, 1] on cpu in graph 0"),
        ({"x": torch.ones(2, 3)}, "torch.float32 [*, 3] on cpu in graph 1"),
        ({"x": torch.ones(2, 1).double()}, "torch.float64 [*, 1] on cpu in graph 1"),
        ({"x": torch.ones(2, 1, 1)}, "graph 1: x has shape [2, 1, 1]; give [n, c]"),
        ({"x": None}, "graph 1: it has neither num_nodes nor x"),
        ({"num_nodes": 3}, "graph 1: x has 2 rows; give 3"),
        ({"edge_attr": None}, "edge_attr is"),
        ({"edge_attr": EDGE[:1]}, "graph 1: edge_attr has 1 row; give 2"),
        ({"edge_index": EDGE.int()}, "graph 1: edge_index has dtype torch.int32"),
        ({"edge_index": EDGE + 1}, "joins nodes 1 and 2 in graph 1, which has 2"),
        ({"y": None}, "y is torch.float32 [*] on cpu in graph 0 but None in graph 1"),
        ({"y": torch.zeros(3)}, "graph 1: y has 3 rows; give 1, one for every graph."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_from_pyg_names_the_graph(second, message):
    fields = {"x": torch.ones(2, 1), "edge_index": EDGE, "edge_attr": EDGE, "y": 1.0}
    with pytest.raises(GraphError, match=re.escape(message)):
        from_pyg([Data(**fields), Data(**{**fields, **second})])


def test_from_pyg_foreign_things():
    with pytest.raises(GraphError, match="this is one Data; give a list of them"):
        from_pyg(Data(num_nodes=1))
    with pytest.raises(GraphError, match="graph 0 is an int; give PyG Data"):
        from_pyg([3])


@given(stores())
@settings(deadline=None)
def test_to_pyg_round_trip(store):
    back = from_pyg(to_pyg(store), node_targets=store.node_targets)
    if len(store):
        assert_same(back, store)


def test_to_pyg_graph_targets_keep_their_row():
    store = replace(from_pyg([Data(num_nodes=1)]), y=int_tensor([[1, 2]]))
    (data,) = to_pyg(store)
    assert data.y.tolist() == [[1, 2]]
    assert (data.num_nodes, data.x, data.edge_attr) == (1, None, None)


class Trap:
    """A pickle that creates a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("count", [1, 2])
def test_read_pyg_data_that_torch_saved(tmp_path, count):
    data = [Data(x=torch.ones(2, 1), edge_index=EDGE, y=torch.tensor([1.0]))] * count
    torch.save(data if count > 1 else data[0], tmp_path / "d.pt")
    found = read_pyg(tmp_path / "d.pt")
    assert len(found) == count
    assert torch.equal(found[0].edge_index, EDGE)


def test_read_pyg_names_a_remedy_for_data_that_a_transform_has_changed(tmp_path):
    data = Data(torch.rand(9, 3), torch.randint(9, (2, 20)))
    assert data.is_node_attr("x")  # fills a cache, which cannot be read safely
    torch.save(data, tmp_path / "d.pt")
    with pytest.raises(FileFormatError, match=r"Data\(\*\*data.to_dict\(\)\)"):
        read_pyg(tmp_path / "d.pt")
    torch.save(Data(**data.to_dict()), tmp_path / "d.pt")
    (found,) = read_pyg(tmp_path / "d.pt")
    assert torch.equal(found.x, data.x)


def test_read_pyg_dicts_of_tensors(tmp_path):
    torch.save([{"edge_index": EDGE, "num_nodes": 3}], tmp_path / "d.pt")
    (found,) = read_pyg(tmp_path / "d.pt")
    assert (found.num_nodes, found.num_edges) == (3, 2)
    torch.save({"edge_index": EDGE, "pos": EDGE.float()}, tmp_path / "d.pt")
    assert read_pyg(tmp_path / "d.pt")[0].pos.dtype == torch.float


def test_read_pyg_never_runs_a_pickle(tmp_path):
    trap = Trap(tmp_path / "trapped")
    (tmp_path / "a.pt").write_bytes(pickle.dumps(trap))
    torch.save([Data(edge_index=EDGE, trap=trap)], tmp_path / "b.pt")
    for name in ("a.pt", "b.pt"):
        with pytest.raises(FileFormatError, match="could run code"):
            read_pyg(tmp_path / name)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    "content", [torch.ones(2), ["text"], {"weights": 1}, {"x": 1, 2: 3}]
)
def test_read_pyg_other_objects_are_refused(tmp_path, content):
    torch.save(content, tmp_path / "d.pt")
    with pytest.raises(FileFormatError, match="give PyG Data"):
        read_pyg(tmp_path / "d.pt")


META = torch.device("meta")


def test_graphs_are_moved_with_fields_that_are_on_another_device():
    graphs = [Data(torch.ones(2, 1), EDGE, number=3, pos=torch.ones(2, 3))] * 2
    fields = read_fields(graphs)
    assert fields.to(fields.store.device) is fields
    # Graphs that are already on a device: only the numbers are on the CPU.
    store = fields.store.to(META)
    moved = replace(fields, store=store).to(META)
    assert {
        name: each.value.device for name, each in moved.attributes.tensors.items()
    } == {"number": META, "pos": META}
    # Only `x` is on another device.
    store = replace(store, x=fields.store.x)
    assert replace(moved, store=store).to(META).store.x.device == META


def test_graphs_without_edges_are_on_the_device_of_their_fields():
    sizes = torch.tensor([2])
    edges, counts = _edges([Data(x=torch.ones(2, 1, device=META))], sizes)
    assert (edges.device, counts.device) == (META, sizes.device)
    edges, _ = _edges([Data(num_nodes=2)], sizes)
    assert edges.device == sizes.device
