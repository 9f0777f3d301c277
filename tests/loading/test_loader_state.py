"""What the state of a `GraphLoader` identifies, and when extractors are equal."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch_geometric.data import Data
from torch_geometric.nn import GIN

from gnnak import EgoNets, GraphLoader, uplift
from gnnak.errors import CheckpointError, OptionError
from tests.loading.test_graph_loader import ring as edges_of_ring


class Stars:
    """A user's extractor, without `__eq__` and `__repr__`."""

    random = False

    def __init__(self, max_hops: int = 1) -> None:
        self.max_hops = max_hops

    def __call__(self, edge_index, num_nodes, generator=None):
        return EgoNets(self.max_hops)(edge_index, num_nodes)


def ring(num_nodes: int) -> Data:
    return Data(torch.rand(num_nodes, 2), edges_of_ring(num_nodes))


RINGS = [ring(number) for number in (4, 5, 6, 7)]


def test_equal_extractors_of_the_user_are_not_called_again(monkeypatch, caplog):
    model = uplift(GIN(2, 4, 1), Stars()).eval()
    batch = next(iter(GraphLoader(RINGS, 4, subgraphs=Stars())))
    other = next(iter(GraphLoader(RINGS, 4, subgraphs=Stars(2))))
    wanted = model(batch.x, batch.edge_index.clone())
    with monkeypatch.context() as patch:
        patch.setattr(Stars, "__call__", lambda *_: pytest.fail("extracted again"))
        assert torch.equal(model(batch.x, batch.edge_index), wanted)
    assert not caplog.records
    assert torch.equal(model(other.x, other.edge_index), wanted)
    assert "has the subgraphs of Stars(max_hops=2), but" in caplog.text


def test_state_of_a_loader_with_an_extractor_of_the_user_has_no_addresses():
    state = GraphLoader(RINGS, 4, subgraphs=Stars()).state_dict()
    assert state["subgraphs"] == "Stars(max_hops=1)"
    GraphLoader(RINGS, 4, subgraphs=Stars()).load_state_dict(state)
    with pytest.raises(CheckpointError, match=r"subgraphs=Stars\(max_hops=1\), but"):
        GraphLoader(RINGS, 4, subgraphs=Stars(2)).load_state_dict(state)


OTHER = {
    "graphs": (RINGS[:3], "graphs=4, but this one has graphs=3"),
    "nodes": ([ring(n) for n in (4, 5, 6, 8)], "nodes=22, .* the same graphs"),
    "edges": ([*RINGS[:3], Data(torch.rand(7, 2), RINGS[0].edge_index)], "edges=44"),
    "order": (RINGS[::-1], "of other graphs, or of the same in another order; build"),
}


@pytest.mark.parametrize("name", OTHER)
def test_state_of_a_loader_of_other_graphs_is_refused(name):
    graphs, message = OTHER[name]
    state = GraphLoader(RINGS, 2).state_dict()
    GraphLoader([each.clone() for each in RINGS], 2).load_state_dict(state)
    with pytest.raises(CheckpointError, match=message):
        GraphLoader(graphs, 2).load_state_dict(state)


def test_state_of_a_loader_in_other_processes_is_refused(monkeypatch):
    state = GraphLoader(RINGS, 2).state_dict()
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    with pytest.raises(CheckpointError, match="processes=1, but this run has processe"):
        GraphLoader(RINGS, 2).load_state_dict(state)


def test_state_of_an_older_version_can_be_loaded():
    loader = GraphLoader(RINGS, 1)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    for name in ("nodes", "edges", "sizes", "processes"):
        del state[name]
    other = GraphLoader(RINGS, 1)
    other.load_state_dict(state)
    assert [batch.num_nodes for batch in other] == [5, 6, 7]


def test_a_state_of_another_batch_size_is_refused():
    state = GraphLoader(RINGS, 4).state_dict()
    with pytest.raises(CheckpointError, match=r"batch_size=4, but this one has.*=5"):
        GraphLoader(RINGS, 5).load_state_dict(state)


def test_a_state_that_is_no_dict_is_refused():
    with pytest.raises(OptionError, match="the state is None; give the state_dict"):
        GraphLoader(RINGS).load_state_dict(None)


def test_a_state_after_more_batches_than_an_epoch_has_is_refused():
    loader = GraphLoader(RINGS, 2)
    state = loader.state_dict() | {"batch": 3}
    with pytest.raises(CheckpointError, match=r"after batch 3 .* has 2 batches"):
        loader.load_state_dict(state)
    loader.load_state_dict(state | {"batch": 2})  # after the last batch
    assert list(loader) == []
    assert loader.epoch == 1


BROKEN = {
    "empty": (lambda _: {}, "the state has no entry 'epoch'; give an unchanged state"),
    "optimizer": (
        lambda _: {"state": {}, "param_groups": []},
        "no entry 'epoch'; give",
    ),
    "position alone": (lambda _: {"epoch": 0, "batch": 0}, "no entry 'graphs'; give"),
    "no epoch": (lambda s: s.pop("epoch") and s, "no entry 'epoch'; give"),
    "no batch": (lambda s: {k: s[k] for k in s if k != "batch"}, "no entry 'batch'"),
    "no seed": (lambda s: {k: s[k] for k in s if k != "seed"}, "no entry 'seed'; give"),
    "None": (lambda s: s | {"epoch": None}, "has epoch=None; give an unchanged state_"),
    "negative": (lambda s: s | {"batch": -1}, "the state has batch=-1; give an unchan"),
    "bool": (lambda s: s | {"epoch": True}, "the state has epoch=True; give an unch"),
    "text": (lambda s: s | {"epoch": "1"}, "the state has epoch='1'; give an unchang"),
    "tensor": (lambda s: s | {"epoch": torch.ones(2)}, "has epoch=a Tensor; give an"),
    "tensors": (lambda s: s | {"graphs": torch.ones(2)}, "graphs=a Tensor, but this o"),
    "list": (lambda s: s | {"drop": [1]}, "with drop=a list, but this one has drop=No"),
}
"""States that are no states of a loader, by what is wrong, and the message."""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_state_is_refused_and_changes_nothing(kind):
    change, message = BROKEN[kind]
    loader = GraphLoader(RINGS, 1, shuffle=True)
    loader.epoch = 1
    before = loader.state_dict()
    with pytest.raises(CheckpointError, match=message) as caught:
        loader.load_state_dict(change(loader.state_dict()))
    assert "\n" not in str(caught.value)
    assert loader.state_dict() == before


def test_a_state_with_numbers_of_numpy_can_be_loaded():
    loader = GraphLoader(RINGS, 1)
    next(iter(loader))
    state = loader.state_dict()
    whole = {k: v for k, v in state.items() if type(v) is int}
    loader.load_state_dict(state | {k: np.int64(v) for k, v in whole.items()})
    assert loader.state_dict() == state
    assert type(loader.epoch) is int
    assert [batch.num_nodes for batch in loader] == [5, 6, 7]
