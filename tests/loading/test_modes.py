"""Loaders of a user who has set a default device, and loaders in inference mode."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GIN

from gnnak import Budget, EgoNets, GraphLoader, RandomWalks, SubgraphDrop, uplift
from gnnak.graphs import from_pyg
from tests.loading.test_graph_loader import RICH, assert_same_batch, ring

PLAIN = [Data(x=each.x, edge_index=each.edge_index, y=each.number) for each in RICH]
CHOSEN = torch.tensor([0, 2])
# The meta device stands for a GPU: a tensor made there by mistake has no values.
LOADERS = {
    "rich": (RICH, {}),
    "budget": (PLAIN, {"batch_size": Budget(nodes=9)}),
    "padded": (PLAIN, {"pad": True}),
    "walks": (PLAIN, {"subgraphs": RandomWalks(3, 2)}),
    "egonets": (PLAIN, {"subgraphs": EgoNets(2)}),
    "padded egonets": (PLAIN, {"subgraphs": EgoNets(2), "pad": True}),
    "store": (from_pyg(PLAIN), {}),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_batches_do_not_depend_on_the_default_device(kind):
    graphs, options = LOADERS[kind]
    options = {"batch_size": 3, "shuffle": True, **options}
    wanted = [*GraphLoader(graphs, **options)]
    with torch.device("meta"):
        found = [*GraphLoader(graphs, **options)]
        parts = found[0].to_data_list()
    assert len(parts) == wanted[0].num_graphs
    for one, other in zip(found, wanted, strict=True):
        if "subgraphs" in other:
            assert torch.equal(one.subgraphs.node, other.subgraphs.node)
            one, other = (batch.clone() for batch in (one, other))
            del one.subgraphs, other.subgraphs
        assert_same_batch(one, other)


def test_graphs_of_a_store_are_selected_whatever_the_default_device():
    store = from_pyg(PLAIN)
    with torch.device("meta"):
        for indices in ([0, 2], slice(0, 3, 2), CHOSEN):
            assert store[indices].num_graphs == 2


def ring_of(n: int) -> Data:
    return Data(torch.rand(n, 2), ring(n), pos=torch.rand(n, 1))


RINGS = [ring_of(number) for number in (4, 5, 6, 7)]
KINDS = {
    "plain": {},
    "subgraphs": {"subgraphs": EgoNets(1)},
    "padded": {"subgraphs": EgoNets(1), "pad": True},
    "drop": {"subgraphs": EgoNets(1), "drop": SubgraphDrop("random", 1)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_inference_mode_are_the_same_and_can_be_trained_on(kind):
    loader, other = (GraphLoader(RINGS, 2, **KINDS[kind]) for _ in range(2))
    model = uplift(GIN(2, 4, 1), num_hops=1)
    with torch.inference_mode():
        batches = [*loader]
        assert model(batches[0].x, batches[0].edge_index).is_inference()
        assert torch.is_inference_mode_enabled()
    for batch, wanted in zip(batches, other, strict=True):
        tensors = [value for _, value in batch if isinstance(value, torch.Tensor)]
        assert not any(value.is_inference() for value in tensors)
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
