import re

import numpy as np
import pytest
import torch

from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import GraphFile, GraphStore, read_npz, write_npz
from gnnak.graphs.readers.npz import holds_one_graph, split_of_masks

PATH = {"edge_index": np.array([[0, 1], [1, 2]]), "y": np.array([1, 0, 1])}
"""A path of three nodes, with a class for every node."""
SPARSE = {
    "x_indptr": np.array([0, 1, 1, 3]),
    "x_indices": np.array([1, 0, 1]),
    "x_shape": np.array([3, 2]),
}


def read(folder, **arrays):
    np.savez(folder / "path.npz", **arrays)
    return read_npz(folder / "path.npz")


def test_read_npz_of_one_graph_mirrors_edges_and_reads_targets_of_nodes(tmp_path):
    found = read(tmp_path, **PATH, x=np.eye(3, dtype=np.float32), split=[[0, 1, 2]])
    assert found.store.num_nodes.tolist() == [3]
    assert found.store.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert found.store.node_targets
    assert found.store.y is not None
    assert found.store.y.tolist() == [1, 0, 1]
    assert found.split is not None
    assert found.split.tolist() == [0, 1, 2]
    assert holds_one_graph(tmp_path / "path.npz")


@pytest.mark.parametrize("values", [None, [5.0, 6.0, 7.0]])
def test_read_npz_of_a_sparse_x_fills_in_zeros(tmp_path, values):
    more = {} if values is None else {"x_values": np.array(values)}
    found = read(tmp_path, **PATH, **SPARSE, **more)
    a, b, c = values or [1.0, 1.0, 1.0]
    assert found.store.x is not None
    assert found.store.x.tolist() == [[0.0, a], [0.0, 0.0], [b, c]]


def test_read_npz_of_masks_returns_a_split_with_minus_one_for_other_nodes(tmp_path):
    masks = {"train_mask": [True, False, False], "test_mask": [False, False, True]}
    found = read(tmp_path, **PATH, **{k: np.array(v) for k, v in masks.items()})
    assert found.split is not None
    assert found.split.tolist() == [0, -1, 2]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_indptr": np.array([0, 1])}, "it lacks x_indices"),
        ({**SPARSE, "x": np.zeros((3, 2))}, "has x and a sparse x"),
        ({**SPARSE, "x_indices": np.array([1, 0, 2])}, "are not a matrix in CSR form"),
        ({**SPARSE, "x_indptr": np.array([0, 2, 1, 3])}, "not a matrix in CSR form"),
        ({**SPARSE, "x_shape": np.array([3, 1 << 40])}, "reduce its columns"),
        ({"split": [0, 1]}, "split has shape [2]"),
        ({"split": [[0, 1, 3]] * 2}, "split holds 3"),
        ({"train_mask": np.ones(3)}, "train_mask is torch.float64 [3]"),
        ({"train_mask": np.ones(2, bool)}, "train_mask has 2 rows"),
        (
            {"train_mask": np.ones(3, bool), "test_mask": np.ones(3, bool)},
            "node 0 is in test_mask and in another mask",
        ),
        ({"train_mask": np.ones(3, bool), "split": [0, 1, 2]}, "leave out one of both"),
        (
            {"x": np.ones((4, 1))},
            "keys num_nodes and num_edges are missing",
        ),
        ({"train_maks": np.ones(3, bool)}, "did you mean train_mask"),
    ],
)
def test_read_npz_of_one_graph_refuses_what_does_not_fit(tmp_path, arrays, message):
    with pytest.raises(FileFormatError, match=re.escape(message)):
        read(tmp_path, **PATH, **arrays)


def test_write_npz_keeps_several_splits_of_the_nodes(tmp_path):
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    sizes = torch.tensor([3]), torch.tensor([4])
    x, y = torch.rand(3, 2), torch.tensor([0, 1, 0])
    store = GraphStore(*sizes, path, x, y=y, node_targets=True)
    split = torch.tensor([[0, 1, 2], [-1, 0, 1]])
    write_npz(tmp_path / "g.npz", GraphFile(store, split))
    found = read_npz(tmp_path / "g.npz")
    assert found.split is not None
    assert torch.equal(found.split, split)
    assert found.store.x is not None
    assert torch.equal(found.store.x, x)


def test_split_of_masks_with_columns_has_one_row_per_column():
    train = torch.tensor([[True, False], [False, True]])
    test = torch.tensor([[False, True], [True, False]])
    found = split_of_masks({"train_mask": train, "test_mask": test}, 2)
    assert found.tolist() == [[0, 2], [2, 0]]
    with pytest.raises(GraphError, match="the masks have 2 and 3 columns"):
        split_of_masks({"train_mask": train, "test_mask": test[:, [0, 1, 1]]}, 2)
