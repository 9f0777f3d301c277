"""Arguments and attributes of PyG's `DataLoader`, in a `GraphLoader`."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gnnak import Budget, EgoNets, GraphLoader, RandomWalks, SubgraphDrop, WholeGraphs
from gnnak.errors import CheckpointError, GraphError, OptionError
from gnnak.loading.assembler import Assembler
from tests.loading.test_graph_loader import numbers

NONE = torch.zeros(2, 0, dtype=torch.long)
GRAPHS = [Data(x=torch.rand(n, 1), edge_index=NONE, number=n) for n in range(1, 8)]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
@pytest.mark.parametrize("drop_last", [False, True])
def test_graph_loader_drops_a_last_smaller_batch_as_pyg_does(batch_size, drop_last):
    ours = GraphLoader(GRAPHS, batch_size, drop_last=drop_last)
    theirs = DataLoader(GRAPHS, batch_size, drop_last=drop_last)
    assert len(ours) == len(theirs)
    assert numbers(ours) == numbers(theirs)
    assert ours.batch_size == theirs.batch_size
    assert ours.dataset is theirs.dataset


def test_graph_loader_drops_other_graphs_in_each_epoch():
    loader = GraphLoader(GRAPHS, 3, shuffle=True, drop_last=True)
    every = numbers(GraphLoader(GRAPHS, 3, shuffle=True))
    assert numbers(loader) == every[:2]
    assert loader.epoch == 1
    assert numbers(loader) != every[:2]


def test_graph_loader_drops_the_last_batch_of_each_process(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    parts = []
    for rank in range(2):
        monkeypatch.setattr(dist, "get_rank", lambda rank=rank: rank)
        parts.append(numbers(GraphLoader(GRAPHS, 3, drop_last=True)))
    assert parts == [[[1, 3, 5]], [[2, 4, 6]]]


WRONG = {
    "no batch": (
        lambda: GraphLoader(GRAPHS, 8, drop_last=True),
        (OptionError, r"no batch: there are 7 graphs, .* is 8"),
    ),
    "budget": (
        lambda: GraphLoader(GRAPHS, Budget(nodes=9), drop_last=True),
        (OptionError, "batches of a Budget have no fixed number"),
    ),
    "an unknown argument": (
        lambda: GraphLoader(GRAPHS, 2, num_workers=4),
        (
            OptionError,
            "^GraphLoader has no option 'num_workers': it assembles batches on their "
            "device, .* leave it out, or use one of: graphs, .*, pad, drop_last.$",
        ),
    ),
    "a sampler": (
        lambda: GraphLoader(GRAPHS, 2, sampler=range(7)),
        (OptionError, "no option 'sampler': .* in the order that shuffle and seed"),
    ),
    "no graphs": (
        lambda: GraphLoader(batch_size=2),
        (TypeError, r"missing 1 required .* argument: 'graphs'"),
    ),
    "None": (lambda: GraphLoader(None, 2), (GraphError, "graphs is None; give a list")),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name):
    call, (error, message) = WRONG[name]
    with pytest.raises(error, match=message):
        call()


def test_drop_last_is_part_of_the_state_and_of_the_text_of_a_loader():
    loader = GraphLoader(GRAPHS, 3, drop_last=True)
    assert "drop_last=True" in repr(loader)
    assert "drop_last" not in repr(GraphLoader(GRAPHS, 3))
    next(iter(loader))
    state = loader.state_dict()
    other = GraphLoader(GRAPHS, 3, drop_last=True)
    other.load_state_dict(state)
    assert numbers(other) == [[4, 5, 6]]
    with pytest.raises(CheckpointError, match="drop_last=True, but this one has"):
        GraphLoader(GRAPHS, 3).load_state_dict(state)


def test_a_state_without_drop_last_is_that_of_a_loader_with_all_batches():
    state = GraphLoader(GRAPHS, 3).state_dict()
    del state["drop_last"]
    GraphLoader(GRAPHS, 3).load_state_dict(state)
    with pytest.raises(CheckpointError, match="drop_last=False, but this one has"):
        GraphLoader(GRAPHS, 3, drop_last=True).load_state_dict(state)


def test_a_loader_has_the_attributes_of_its_arguments():
    loader = GraphLoader(GRAPHS, 2, shuffle=True, seed=5, drop_last=True)
    assert (loader.dataset, loader.batch_size) == (GRAPHS, 2)
    assert (loader.shuffle, loader.seed, loader.drop_last) == (True, 5, True)
    assert (loader.subgraphs, loader.drop, loader.padded) == (None, None, False)
    loader.epoch = 3
    assert loader.state_dict()["epoch"] == 3


def test_a_field_of_zeros_replaces_follow_batch():
    graphs = [Data(num_nodes=2, s=torch.rand(n), edge_index=NONE) for n in (2, 1, 3)]
    (theirs,) = DataLoader(graphs, 3, follow_batch=["s"])
    for each in graphs:
        each.s_batch = torch.zeros(each.s.numel(), dtype=torch.long)
    (ours,) = GraphLoader(graphs, 3)
    assert torch.equal(ours.s_batch, theirs.s_batch)


def test_numbers_of_numpy_are_taken_as_ints():
    loader = GraphLoader(GRAPHS, np.int64(2), shuffle=True, seed=np.int32(5))
    other = GraphLoader(GRAPHS, 2, shuffle=True, seed=5)
    assert repr(loader) == repr(other)
    assert type(loader.batch_size) is int
    assert numbers(loader) == numbers(other)
    other.load_state_dict(loader.state_dict())
    loader.epoch = np.int64(1)
    assert type(loader.epoch) is int
    assert repr(Budget(np.int64(9))) == "Budget(nodes=9, copies=None)"
    padded = GraphLoader(GRAPHS, np.int64(2), subgraphs=EgoNets(1), pad=True)
    assert padded.padded


@pytest.mark.parametrize("size", [8, 2**63 - 1, 10**30])
@pytest.mark.parametrize("single", [True, False])
def test_a_batch_size_above_the_number_of_graphs_gives_one(size, single, monkeypatch):
    made = Assembler.__init__
    monkeypatch.setattr(
        Assembler, "__init__", lambda self, *args: made(self, *args[:-1], single)
    )
    loader = GraphLoader(GRAPHS, size, subgraphs=EgoNets(1))
    assert numbers(loader) == [[*range(1, 8)]]
    assert loader.batch_size == size


@pytest.mark.parametrize("most", [28, 2**63 - 1, 10**30])
def test_a_budget_above_the_size_of_all_graphs_limits_nothing(most):
    assert numbers(GraphLoader(GRAPHS, Budget(nodes=most))) == [[*range(1, 8)]]
    loader = GraphLoader(GRAPHS, Budget(7, most), subgraphs=EgoNets(1))
    assert numbers(loader) == [[1, 2, 3], [4], [5], [6], [7]]


@pytest.mark.parametrize("kind", [EgoNets, RandomWalks, WholeGraphs, Budget])
def test_options_of_numpy_are_the_same_as_ints(kind):
    assert repr(kind(np.int64(3))) == repr(kind(3))
    assert kind(np.int64(3)) == kind(3)
    with pytest.raises(OptionError, match=r"is np.float64\(3.0\); give a whole number"):
        kind(np.float64(3))


def test_coverage_of_numpy_is_the_same_as_an_int():
    drop = SubgraphDrop("random", np.int64(3))
    assert repr(drop) == repr(SubgraphDrop("random", 3))
