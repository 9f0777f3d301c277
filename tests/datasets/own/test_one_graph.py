import re

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from gnnak.datasets.own import OwnData, load_own
from gnnak.errors import FileFormatError, GraphError, OptionError

PARTS = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, -1, -1])


def ring(**fields):
    """A ring of ten nodes and a chord, with two classes in turn."""
    node = torch.arange(10)
    ends = torch.stack([node, (node + 1) % 10])
    ends = torch.cat([ends, torch.tensor([[0], [5]])], dim=1)
    given = {"x": torch.rand(10, 3), "edge_index": torch.cat([ends, ends.flip(0)], 1)}
    return Data(**given | {"y": node % 2} | fields)


def masked(parts=PARTS, **fields):
    names = ("train_mask", "val_mask", "test_mask")
    return ring(**{name: parts == i for i, name in enumerate(names)}, **fields)


def test_load_own_reads_the_masks_of_one_graph():
    found = load_own(OwnData(), masked()).dataset
    assert found.info.one_graph
    assert found.info.node_task
    assert found.split is not None
    assert torch.equal(found.split, PARTS)
    assert found.features is not None
    assert not found.features.unused_nodes


def test_load_own_gives_classes_outside_of_the_masks_no_output():
    y = torch.tensor([0, 1] * 4 + [-1, 7])
    found = load_own(OwnData(), masked(y=y)).dataset
    assert found.info.classes == ("0", "1")
    assert found.check().num_folds == 0


def test_load_own_refuses_targets_for_some_nodes_of_a_graph_with_masks():
    with pytest.raises(GraphError, match="y has 9 rows; give 10, one for every node"):
        load_own(OwnData(), masked(y=torch.zeros(9)))


def test_load_own_leaves_out_nodes_without_a_target():
    y = torch.tensor([0.5, 1.5, 2.5, 3.0, 4.0] * 2)
    y[3] = torch.nan
    found = load_own(OwnData(), ring(y=y)).dataset
    assert found.info.task == "regression"
    assert found.split is not None
    assert found.split[3] == -1
    assert (found.split >= 0).sum() == 9


def test_load_own_refuses_a_node_without_a_target_in_a_mask():
    y = torch.arange(10) / 3
    y[2] = torch.nan
    with pytest.raises(FileFormatError, match="node 2: y is empty"):
        load_own(OwnData(), masked(y=y))
    found = load_own(OwnData(skip_bad=True), masked(y=y))
    assert found.bad == ("row 3: y is empty",)
    assert found.dataset.split is not None
    assert found.dataset.split[2] == -1


def test_load_own_splits_the_nodes_of_one_graph_into_folds():
    found = load_own(OwnData(folds=5), ring()).dataset
    assert found.num_folds == 5
    split = found.split
    assert split is not None
    assert ((split == 2).sum(dim=0) == 1).all()
    assert ((split == 1).sum(dim=0) == 1).all()
    assert ((split == 0).sum(dim=1) >= 4).all()


def test_load_own_takes_a_given_split_or_one_in_a_node_attribute():
    given = load_own(OwnData(), masked(), split=[0, 1, 2, -1, 0, 0, 0, 0, 0, 0])
    assert given.dataset.split is not None
    assert given.dataset.split[:4].tolist() == [0, 1, 2, -1]
    graph = nx.path_graph(4)
    nx.set_node_attributes(graph, dict(enumerate("abab")), "kind")
    words = dict(enumerate(["train", "train", "val", "test"]))
    nx.set_node_attributes(graph, words, "part")
    own = OwnData(targets=("kind",), split="column:part")
    found = load_own(own, graph).dataset
    assert found.split is not None
    assert found.split.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("own", "split", "message"),
    [
        (OwnData(split="scaffold"), None, "use --split random or masks"),
        (OwnData(), [0, 1], "give 10 numbers, one for every node"),
        (OwnData(folds=11), None, "give at least 11"),
        (OwnData(split="column:part"), None, "has no columns"),
    ],
)
def test_load_own_refuses_splits_that_do_not_fit_one_graph(own, split, message):
    with pytest.raises((OptionError, GraphError, FileFormatError), match=message):
        load_own(own, ring(), split=split)


def test_load_own_of_one_graph_with_one_target_asks_for_targets_of_nodes():
    with pytest.raises(FileFormatError, match=re.escape("or one graph with a target")):
        load_own(OwnData(), ring(y=torch.tensor([1.0])))
