"""What the state of a `GraphLoader` identifies, and when extractors are equal."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GIN

from gnnak import EgoNets, GraphLoader, uplift
from gnnak.errors import CheckpointError


class Stars:
    """A user's extractor, without `__eq__` and `__repr__`."""

    random = False

    def __init__(self, max_hops: int = 1) -> None:
        self.max_hops = max_hops

    def __call__(self, edge_index, num_nodes, generator=None):
        return EgoNets(self.max_hops)(edge_index, num_nodes)


def ring(num_nodes: int) -> Data:
    nodes = torch.arange(num_nodes)
    edges = torch.stack([nodes, nodes.roll(1)])
    return Data(torch.rand(num_nodes, 2), torch.cat([edges, edges.flip(0)], dim=1))


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
