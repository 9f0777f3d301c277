"""A `GraphLoader` that is iterated in inference mode, as in an evaluation."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GIN

from gnnak import EgoNets, GraphLoader, SubgraphDrop, uplift


def ring(num_nodes: int) -> Data:
    nodes = torch.arange(num_nodes)
    edge_index = torch.stack([nodes, nodes.roll(1)])
    return Data(torch.rand(num_nodes, 2), edge_index, pos=torch.rand(num_nodes, 1))


RINGS = [ring(number) for number in (4, 5, 6, 7)]
LOADERS = {
    "plain": {},
    "subgraphs": {"subgraphs": EgoNets(1)},
    "padded": {"subgraphs": EgoNets(1), "pad": True},
    "drop": {"subgraphs": EgoNets(1), "drop": SubgraphDrop("random", 1)},
}


@pytest.mark.parametrize("kind", LOADERS)
def test_batches_of_inference_mode_are_the_same_and_can_be_trained_on(kind):
    loader, other = (GraphLoader(RINGS, 2, **LOADERS[kind]) for _ in range(2))
    model = uplift(GIN(2, 4, 1), num_hops=1)
    with torch.inference_mode():
        batches = [*loader]
        assert model(batches[0].x, batches[0].edge_index).is_inference()
        assert torch.is_inference_mode_enabled()
    for batch, wanted in zip(batches, other, strict=True):
        assert not any(
            v.is_inference() for _, v in batch if isinstance(v, torch.Tensor)
        )
        assert torch.equal(batch.x, wanted.x)
        assert torch.equal(batch.edge_index, wanted.edge_index)
        model(batch.x, batch.edge_index).sum().backward()


def test_models_use_the_attached_subgraphs_in_inference_mode(monkeypatch):
    model = uplift(GIN(2, 4, 1), num_hops=1).eval()
    loader = GraphLoader(RINGS, 4, subgraphs=EgoNets(1))
    batch = next(iter(loader))
    wanted = model(batch.x, batch.edge_index.clone())
    monkeypatch.setattr(EgoNets, "__call__", lambda *_: pytest.fail("extracted again"))
    with torch.inference_mode():
        (batch,) = loader
        torch.testing.assert_close(model(batch.x, batch.edge_index), wanted)


def test_batches_without_gradients_have_none():
    graphs = [Data(torch.rand(3, 2, requires_grad=True)) for _ in range(2)]
    loader = GraphLoader(graphs, 2)
    with torch.no_grad():
        assert not next(iter(loader)).x.requires_grad
    with torch.inference_mode():
        assert not next(iter(loader)).x.requires_grad
    assert next(iter(loader)).x.requires_grad
