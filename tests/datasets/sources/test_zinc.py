import pickle

import pytest
import torch

from gnnak.datasets import load_dataset
from gnnak.errors import FileFormatError
from gnnak.nn.features import Categorical
from tests.datasets.sources.internet import Evil, zipped


def molecule(target):
    """A path of three atoms, whose types are 5, 0 and 7, with bonds 1 and 2."""
    bonds = torch.tensor([[0, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=torch.int32)
    return {
        "num_atom": 3,
        "atom_type": torch.tensor([5, 0, 7], dtype=torch.int8),
        "bond_type": bonds,
        "logP_SA_cycle_normalized": torch.tensor([target]),
    }


def archive(**changes):
    parts = {
        split: pickle.dumps([molecule(code + i / 4) for i in range(3)])
        for code, split in enumerate(("train", "val", "test"))
    }
    return zipped({f"molecules/{k}.pickle": v for k, v in (parts | changes).items()})


@pytest.fixture
def zinc(internet):
    internet.contents["molecules.zip?dl=1"] = archive()
    internet.contents["train.index"] = b"2,0\n"
    internet.contents["val.index"] = b"1\n"
    internet.contents["test.index"] = b"0,"
    return internet


@pytest.mark.usefixtures("zinc")
def test_zinc_is_downloaded_with_the_molecules_of_the_index():
    found = load_dataset("zinc")
    assert found.info.source == "downloaded"
    assert found.split.tolist() == [0, 0, 1, 2]
    assert found.store.y.tolist() == [0.5, 0.0, 1.25, 2.0]
    assert found.store.num_nodes.tolist() == [3] * 4
    assert found.store.x[:3].tolist() == [[5], [0], [7]]
    assert found.info.node_features == Categorical((28,))
    batch = found.store[0]
    edges = zip(*batch.edge_index.tolist(), batch.edge_attr[:, 0].tolist(), strict=True)
    assert sorted(edges) == [(0, 1, 1), (1, 0, 1), (1, 2, 2), (2, 1, 2)]


def test_zinc_is_downloaded_once_and_cached(zinc):
    first = load_dataset("zinc")
    zinc.contents.clear()
    again = load_dataset("zinc")
    assert torch.equal(first.store.edge_index, again.store.edge_index)
    assert len(zinc.opened) == 4


def test_a_planted_pickle_is_not_executed(zinc, tmp_path):
    evil = pickle.dumps(Evil(tmp_path / "evil"))
    zinc.contents["molecules.zip?dl=1"] = archive(train=evil)
    with pytest.raises(FileFormatError) as caught:
        load_dataset("zinc")
    assert str(caught.value).endswith(
        "eval; it is not read, because it could run code; alternatively put "
        "zinc12k.npz into the folder that --data-dir or GNNAK_DATA names."
    )
    assert not (tmp_path / "evil").exists()


def test_other_molecules_are_refused(zinc):
    zinc.contents["molecules.zip?dl=1"] = archive(val=pickle.dumps([{"a": 1}] * 9))
    with pytest.raises(FileFormatError, match="does not contain the molecules of ZINC"):
        load_dataset("zinc")


def test_a_wrong_archive_is_downloaded_again(zinc):
    right = zinc.contents["molecules.zip?dl=1"]
    wrong = (b"<html>", right[: len(right) // 2], archive(train=b"damaged"))
    for content in wrong:
        zinc.contents["molecules.zip?dl=1"] = content
        with pytest.raises(FileFormatError, match=r"zinc12k\.npz"):
            load_dataset("zinc")
    zinc.contents["molecules.zip?dl=1"] = right
    assert len(load_dataset("zinc").store) == 4
