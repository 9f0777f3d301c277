"""Batches of a `GraphLoader` that were pickled, saved or copied."""

import copy
import io
import pickle

import pytest
import torch
from torch_geometric.loader import DataLoader

from gnnak import EgoNets, GraphLoader, SubgraphDrop, TrainingStep, uplift
from gnnak.loading.forms import padded_form
from gnnak.subgraphs.attached import attached_to
from tests.loop.models import Gine, mae, molecules


def saved_and_loaded(batch):
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = {
    "pickle": lambda batch: pickle.loads(pickle.dumps(batch)),
    "torch.save": saved_and_loaded,
    "deepcopy": copy.deepcopy,
}
LOADERS = {
    "plain": {},
    "padded": {"pad": True},
    "subgraphs": {"subgraphs": EgoNets(1), "pad": True},
    "drop": {"subgraphs": EgoNets(1), "drop": SubgraphDrop("random", 1)},
}
GRAPHS = molecules(4)
for number, each in enumerate(GRAPHS):
    each.name, each.number = f"graph {number}", number


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", LOADERS)
def test_pickled_batches_have_all_fields_and_can_be_taken_apart(kind, way):
    batch = next(iter(GraphLoader(GRAPHS, 4, **LOADERS[kind])))
    loaded = WAYS[way](batch)
    assert set(loaded.keys()) == set(batch.keys())
    assert loaded.num_graphs == 4
    theirs = next(iter(DataLoader(GRAPHS, 4)))
    for name, value in theirs:
        same = torch.equal if isinstance(value, torch.Tensor) else list.__eq__
        assert same(loaded[name], value), name
    for one, other in zip(loaded.to_data_list(), GRAPHS, strict=True):
        assert set(one.keys()) == set(other.keys())
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.edge_index, other.edge_index)
        assert (one.name, int(one.number)) == (other.name, other.number)
    if "subgraphs" in LOADERS[kind]:
        assert torch.equal(loaded.subgraphs.node, batch.subgraphs.node)
    assert "no padded form" in padded_form(loaded)


@pytest.mark.parametrize("way", WAYS)
def test_pickled_batches_can_be_trained_on(way):
    batch = next(iter(GraphLoader(GRAPHS, 4, **LOADERS["subgraphs"])))
    model = uplift(Gine().double(), num_hops=1)
    values = []
    for each in (batch, WAYS[way](batch)):
        mine = copy.deepcopy(model)
        step = TrainingStep(mine, mae, torch.optim.SGD(mine.parameters(), 0.1))
        values.append(float(step(each)))
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_changed_edges_have_no_subgraphs_attached(way):
    batch = next(iter(GraphLoader(GRAPHS, 4, subgraphs=EgoNets(1))))
    assert attached_to(batch.edge_index, batch.num_nodes) is not None
    batch.edge_index[:, 0] = 0
    assert attached_to(WAYS[way](batch).edge_index, batch.num_nodes) is None


def test_batches_with_the_subgraphs_of_a_local_extractor_can_be_pickled():
    class Local:
        random, max_hops = False, 1

        def __call__(self, edge_index, num_nodes, generator=None):
            return EgoNets(1)(edge_index, num_nodes)

    batch = next(iter(GraphLoader(GRAPHS, 4, subgraphs=Local())))
    assert pickle.loads(pickle.dumps(batch)).subgraphs.num_nodes == batch.num_nodes
