import pytest
import torch

from gnnak.datasets import archive, load_dataset
from gnnak.datasets.assemble import download
from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import GraphFile, GraphStore

pytestmark = pytest.mark.usefixtures("no_data")


def offline(url):
    raise OSError("no route to host")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("zinc", "zinc12k.npz"),
        ("mutag", "tu-mutag.npz"),
        ("cifar10", "cifar10-superpixels.npz"),
        ("molhiv", "molhiv.npz"),
    ],
)
def test_offline_error_names_the_missing_file(name, file, monkeypatch):
    monkeypatch.setattr(archive, "open_url", offline)
    with pytest.raises(FileFormatError) as told:
        load_dataset(name)
    assert str(told.value) == (
        f"{file} was not found and could not be downloaded (no route to host); put it "
        "into the folder that --data-dir or GNNAK_DATA names."
    )


def test_something_else_than_an_archive_is_explained():
    def page(folder):
        raise FileFormatError("it is a page.")

    with pytest.raises(FileFormatError) as told:
        download("a.npz", page)
    assert str(told.value) == (
        "it is a page; alternatively put a.npz into the folder that --data-dir or "
        "GNNAK_DATA names."
    )


def test_exp_cannot_be_downloaded():
    with pytest.raises(FileFormatError, match=r"exp\.npz was not found and cannot be"):
        load_dataset("exp")


def test_directed_graphs_are_refused():
    one = torch.tensor([1])
    store = GraphStore(one + 1, one, torch.tensor([[0], [1]]))
    with pytest.raises(GraphError, match=r"downloaded for a\.npz are not undirected"):
        download("a.npz", lambda folder: GraphFile(store))
