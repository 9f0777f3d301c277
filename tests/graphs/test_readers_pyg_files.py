import os
import pickle

import pytest
import torch
from torch_geometric.data import Data

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.pyg import read_pyg

EDGES = torch.tensor([[0, 1], [1, 0]])


class Trap:
    """A pickle that creates a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("count", [1, 2])
def test_read_pyg_data_that_torch_saved(tmp_path, count):
    data = [Data(x=torch.ones(2, 1), edge_index=EDGES, y=torch.tensor([1.0]))] * count
    torch.save(data if count > 1 else data[0], tmp_path / "d.pt")
    found = read_pyg(tmp_path / "d.pt")
    assert len(found) == count
    assert torch.equal(found[0].edge_index, EDGES)


def test_read_pyg_dicts_of_tensors(tmp_path):
    torch.save([{"edge_index": EDGES, "num_nodes": 3}], tmp_path / "d.pt")
    (found,) = read_pyg(tmp_path / "d.pt")
    assert (found.num_nodes, found.num_edges) == (3, 2)


def test_read_pyg_never_runs_a_pickle(tmp_path):
    trap = Trap(tmp_path / "trapped")
    (tmp_path / "a.pt").write_bytes(pickle.dumps(trap))
    torch.save([Data(edge_index=EDGES, trap=trap)], tmp_path / "b.pt")
    for name in ("a.pt", "b.pt"):
        with pytest.raises(FileFormatError, match="could run code"):
            read_pyg(tmp_path / name)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("content", [torch.ones(2), ["text"], {"weights": 1}])
def test_read_pyg_other_objects_are_refused(tmp_path, content):
    torch.save(content, tmp_path / "d.pt")
    with pytest.raises(FileFormatError, match="give PyG Data"):
        read_pyg(tmp_path / "d.pt")
