"""Uplifted models that are compiled or exported, with subgraphs handed in."""

import pytest
import torch
from torch import nn
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounterWithBackend
from torch_geometric.data import Data
from torch_geometric.nn import GIN

from gnnak import (
    EgoNets,
    GraphLoader,
    RootedSubgraphs,
    SubgraphDrop,
    TrainingStep,
    uplift,
)
from gnnak.errors import SubgraphError
from gnnak.models import ModelOptions, build_model
from gnnak.nn.features import Continuous
from tests.loop.models import Gine, molecules

EXTRACTOR = EgoNets(2)


def batches() -> GraphLoader:
    return GraphLoader(molecules(12), 3, subgraphs=EXTRACTOR)


def one_graph() -> Data:
    return next(iter(GraphLoader(molecules(1), 1, subgraphs=EXTRACTOR)))


def arguments(batch: Data) -> tuple:
    fields = (batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    return (*fields, batch.num_graphs)


def test_uplifted_model_takes_subgraphs_from_the_caller(monkeypatch):
    net = uplift(GIN(4, 8, 2), num_hops=2).double().eval()
    graph = molecules(1)[0]
    subgraphs = EXTRACTOR(graph.edge_index, graph.num_nodes)
    wanted = net(graph.x, graph.edge_index)
    net.zero_grad()

    def refuse(*_: object) -> None:
        raise AssertionError("subgraphs were extracted")

    monkeypatch.setattr(EgoNets, "__call__", refuse)
    # Other edges than before, so that nothing is in the cache.
    edges = graph.edge_index.flip(1)
    given = net(graph.x, edges, subgraphs=subgraphs)
    torch.testing.assert_close(given, wanted)
    with pytest.raises(AssertionError, match="extracted"):
        net(graph.x, edges)


def test_a_model_compiled_as_one_graph_asks_for_subgraphs():
    net = uplift(GIN(4, 8, 1), num_hops=2).double()
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    batch = next(iter(batches()))
    with pytest.raises(Unsupported, match="pass them to the model as subgraphs="):
        compiled(batch.x, batch.edge_index)


def test_a_training_step_hands_subgraphs_to_a_model_compiled_as_one_graph():
    losses = []
    for compiles in (False, True):
        torch.manual_seed(0)
        net = uplift(GIN(4, 8, 1), num_hops=2).double()
        model: nn.Module = net
        if compiles:
            model = torch.compile(net, fullgraph=True, dynamic=True, backend="eager")  # type: ignore[assignment]
        step = TrainingStep(
            model,
            lambda out, batch: out.square().mean(),
            torch.optim.SGD(net.parameters(), 0.1),
            call=lambda m, b: m(b.x, b.edge_index, subgraphs=b.subgraphs),
        )
        losses.append(torch.stack([step(batch) for batch in batches()]))
    torch.testing.assert_close(*losses)


def test_uplifted_model_samples_from_subgraphs_of_the_caller():
    drop = SubgraphDrop("random", 1)
    net = uplift(GIN(4, 8, 1), num_hops=2, drop=drop).double()
    batch = next(iter(batches()))
    torch.manual_seed(0)
    wanted = net(batch.x, batch.edge_index.clone())
    torch.manual_seed(0)
    subgraphs = EXTRACTOR(batch.edge_index, batch.num_nodes)
    found = net(batch.x, batch.edge_index.clone(), subgraphs=subgraphs)
    torch.testing.assert_close(found, wanted)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "training",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["training", "evaluation"],
)
def test_uplifted_model_compiles_once_for_batches_of_all_sizes(training):
    net = uplift(Gine(), num_hops=2).double().train(training)
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend=counter)
    sizes = set()
    for batch in batches():
        given = arguments(batch)
        found = compiled(*given, subgraphs=batch.subgraphs)
        torch.testing.assert_close(found, net(*given, subgraphs=batch.subgraphs))
        sizes.add((batch.num_nodes, batch.subgraphs.num_copies))
    assert len(sizes) == 4
    assert counter.frame_count == 1


class Deployed(nn.Module):
    """An uplifted model whose arguments are tensors alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x, edge_index, edge_attr, batch, ptr, *fields):
        subgraphs = RootedSubgraphs(*fields)
        given = (x, edge_index, edge_attr, batch, ptr.numel() - 1)
        return self.net(*given, subgraphs=subgraphs)


def tensors(batch: Data) -> tuple:
    """Return the tensors of a batch and of its subgraphs, as `Deployed` takes them."""
    s = batch.subgraphs
    fields = (s.root, s.node, s.subgraph, s.hop, s.edge_index, s.edge)
    graph = (batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.ptr)
    return (*graph, *fields)


def exported(deployed: nn.Module, batch: Data) -> nn.Module:
    """Export a model, with operations of ONNX, for sizes that vary."""
    auto = torch.export.Dim.AUTO
    along = [
        {1 if t.dim() == 2 and t.size(0) == 2 else 0: auto} for t in tensors(batch)
    ]
    shapes = (*along[:5], tuple(along[5:]))
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        program = torch.export.export(deployed, tensors(batch), dynamic_shapes=shapes)
    assert "nonzero_static" not in str(program.graph)
    return program.module()


@pytest.mark.heavy
def test_uplifted_model_exports_with_sizes_that_vary():
    net = uplift(Gine(), num_hops=2).double().eval()
    first, *rest = batches()
    program = exported(Deployed(net), first)
    for batch in (*rest, one_graph()):
        torch.testing.assert_close(program(*tensors(batch)), net(*arguments(batch)))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_uplifted_model_is_traced_with_sizes_that_vary():
    net = uplift(Gine(), num_hops=2).double().eval()
    first, *rest = batches()
    program = torch.jit.trace(Deployed(net), tensors(first))
    for batch in (*rest, one_graph()):
        torch.testing.assert_close(program(*tensors(batch)), net(*arguments(batch)))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("convert", [torch.export.export, torch.jit.trace])
def test_a_model_exported_without_subgraphs_asks_for_them(convert):
    net, graph = uplift(GIN(4, 8, 1)).double(), one_graph()
    with pytest.raises(SubgraphError, match="pass the subgraphs to the model as subgr"):
        convert(net, (graph.x, graph.edge_index.clone()))


class DeployedNetwork(Deployed):
    """A network by name whose arguments are tensors alone."""

    def forward(self, x, edge_index, edge_attr, batch, ptr, *fields):
        sizes = {"num_nodes": x.size(0), "num_edges": edge_index.size(1)}
        subgraphs = RootedSubgraphs(*fields, **sizes)
        given = {"batch": batch, "num_graphs": ptr.numel() - 1, "subgraphs": subgraphs}
        return self.net(x, edge_index, edge_attr, **given)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["gin-ak+", "dss-gin"])
def test_network_exports_with_sizes_that_vary(name):
    first, *rest = batches()
    features = [Continuous(t.size(1)) for t in (first.x, first.edge_attr)]
    options = ModelOptions(num_layers=2, channels=8)
    net = build_model(name, *features, 1, options).double().eval()
    program = exported(DeployedNetwork(net), first)
    for batch in (*rest, one_graph()):
        given = {"batch": batch.batch, "num_graphs": batch.num_graphs}
        wanted = net(
            batch.x,
            batch.edge_index,
            batch.edge_attr,
            **given,
            subgraphs=batch.subgraphs,
        )
        torch.testing.assert_close(program(*tensors(batch)), wanted)
