"""Fields of the user in batches of a `GraphLoader`, whatever their names and values."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gnnak import EgoNets, GraphLoader
from gnnak.errors import GraphError
from gnnak.graphs.real import real_counts_of
from gnnak.loading.padded_form import padded_form
from gnnak.models import build_model
from gnnak.nn.features import Categorical
from tests.loading.test_graph_loader import assert_same_batch


def graph(num_nodes: int = 3, **fields: object) -> Data:
    """A ring with further fields."""
    nodes = torch.arange(num_nodes)
    edge_index = torch.stack([nodes, nodes.roll(1)])
    return Data(x=torch.rand(num_nodes, 2), edge_index=edge_index, **fields)


NAMED = {
    "graphs": lambda n: torch.rand(1),
    "nodes": lambda n: torch.rand(n),
    "ragged": lambda n: torch.rand(n + 1),
    "number": lambda n: n,
    "text": lambda n: f"graph {n}",
}
"""Values of a field, by kind, for a graph with n nodes."""


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("name", ["real", "subgraphs"])
def test_graph_loader_keeps_fields_with_names_of_its_own(name, kind, pad):
    graphs = [graph(n, **{name: NAMED[kind](n)}) for n in (3, 4, 5, 3)]
    loader, theirs = GraphLoader(graphs, 2, pad=pad), DataLoader(graphs, 2)
    for one, other in zip(loader, theirs, strict=True):
        assert name in one
        assert_same_batch(one, other)
        parts = zip(one.to_data_list(), other.to_data_list(), strict=True)
        assert all(str(part[name]) == str(wanted[name]) for part, wanted in parts)


@pytest.mark.parametrize("extractor", [None, EgoNets(1)])
def test_padded_batches_have_a_field_named_real_and_their_real_counts(extractor):
    graphs = [graph(n, real=torch.rand(n)) for n in (3, 4, 5, 3)]
    for batch in GraphLoader(graphs, 2, subgraphs=extractor, pad=True):
        form = padded_form(batch)
        padded = form.build(form.item)
        assert torch.equal(padded.real[: batch.num_nodes], batch.real)
        assert padded.real.numel() > batch.num_nodes
        assert int(real_counts_of(padded).nodes) == batch.num_nodes
        assert real_counts_of(batch) is None


def test_a_changed_field_named_subgraphs_is_padded():
    graphs = [graph(n, subgraphs=torch.rand(n)) for n in (3, 4, 5, 3)]
    batch = next(iter(GraphLoader(graphs, 2, pad=True)))
    batch.subgraphs = batch.subgraphs + 1
    form = padded_form(batch)
    padded = form.build(form.item)
    assert torch.equal(padded.subgraphs[: batch.num_nodes], batch.subgraphs)


def test_networks_ignore_padding_of_a_pyg_batch_with_a_field_named_real():
    graphs = [graph(n, real=torch.rand(n)) for n in (3, 4, 5, 3)]
    for each in graphs:
        each.x = torch.zeros(each.num_nodes, 1, dtype=torch.long)
    network = build_model("gin", Categorical((1,)), None, 2)
    batch = next(iter(GraphLoader(graphs, 2, pad=True)))
    form = padded_form(batch)
    padded = network(form.build(form.item))[: batch.num_graphs]
    torch.testing.assert_close(padded, network(batch))


def test_graph_loader_refuses_a_field_that_its_subgraphs_would_replace():
    graphs = [graph(subgraphs=torch.rand(1))] * 2
    with pytest.raises(GraphError, match=r"have a field 'subgraphs', .*; rename"):
        GraphLoader(graphs, 2, subgraphs=EgoNets(1))
