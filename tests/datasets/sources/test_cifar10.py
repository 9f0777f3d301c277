import io
import pickle

import pytest
import torch

from gnnak.datasets import load_dataset
from gnnak.errors import FileFormatError
from gnnak.nn.features import Continuous
from tests.datasets.sources.internet import Evil, zipped


def graph(label):
    generator = torch.Generator().manual_seed(label)
    x, pos = (torch.rand(20, c, generator=generator) for c in (3, 2))
    return {
        "x": x,
        "pos": pos,
        "edge_index": torch.tensor([[0, 1, 2, 19], [1, 0, 4, label]]),
        "edge_attr": torch.tensor([0.5, 0.5, 0.25, 0.75]),
        "y": torch.tensor([label]),
    }


def archive(content):
    file = io.BytesIO()
    torch.save(content, file)
    return zipped({"CIFAR10_v2.pt": file.getvalue()})


def test_cifar10_is_downloaded_with_its_edges_in_both_directions(internet):
    internet.contents["CIFAR10_v2.zip"] = archive([[graph(4)], [graph(5)], [graph(6)]])
    found = load_dataset("cifar10")
    assert found.store.y.tolist() == [4, 5, 6]
    assert found.split.tolist() == [0, 1, 2]
    assert found.info.node_features == Continuous(5)
    assert found.info.edge_features is None
    assert found.store.num_edges.tolist() == [6, 6, 6]
    assert found.store.edge_index[:, 6:12].tolist() == [
        [0, 1, 2, 4, 5, 19],
        [1, 0, 4, 2, 19, 5],
    ]
    assert found.store.edge_attr is None
    wanted = graph(4)
    pixels = torch.cat([wanted["x"], wanted["pos"]], dim=1)
    assert (found.store.x[:20] - pixels).abs().max() <= 0.5 / 255 + 1e-6


def test_a_planted_object_is_not_executed(internet, tmp_path):
    file = tmp_path / "evil"
    for content in (
        archive([Evil(file)]),
        zipped({"CIFAR10_v2.pt": pickle.dumps(Evil(file))}),
    ):
        internet.contents["CIFAR10_v2.zip"] = content
        with pytest.raises(
            FileFormatError, match="it is not read, because it could run"
        ):
            load_dataset("cifar10")
    assert not file.exists()


def test_other_tensors_are_refused(internet):
    internet.contents["CIFAR10_v2.zip"] = archive([[{"x": torch.ones(2)}]])
    with pytest.raises(FileFormatError, match="does not contain superpixels"):
        load_dataset("cifar10")
