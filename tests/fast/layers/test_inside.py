"""Messages of all subgraph GNNs: fused against plain PyTorch."""

import pytest
import torch

from gnnak.models.options import FamilyOptions, SubgraphOptions
from gnnak.nn.family.gnn import Conv
from gnnak.training.processes.machine import Machine
from gnnak.training.run import run
from tests.fast.backends import assert_fused_equals_plain, fused_everywhere
from tests.models.zoo import continuous_network, molecule_batch, small_network
from tests.training.small import edge_counts, small_config

NAMES = {
    "nested-gin": (1, 0),
    "ds-gin": (1, 0),
    "dss-gin": (1, 0),
    "sun-gin": (2, 0),
    "id-gin": (2, 0),
    "sswl+-gcn": (1, 1),
    "l2fgnn-gin": (1, 1),
    "sswl+-sage": (1, 1),
}
"""By name, how many convs of a layer pass messages inside and across subgraphs."""


def network(name):
    return small_network(name, subgraphs=SubgraphOptions(num_hops=2)).double()


@pytest.mark.parametrize("name", NAMES)
def test_fused_messages_equal_those_in_plain_pytorch(fused_operations, name):
    net, (inside, across) = network(name), NAMES[name]
    assert_fused_equals_plain(net, molecule_batch())
    layers = len(net.layers[0].layers)
    assert fused_operations.count("inside") == inside * layers
    assert fused_operations.count("pass_across") == across * layers


def test_fused_messages_without_norms(fused_operations):
    net = small_network("l2fgnn-gin", family=FamilyOptions(norm="none")).double()
    assert_fused_equals_plain(net, molecule_batch())
    assert {"inside", "pass_across"} <= set(fused_operations)


@pytest.mark.parametrize("kind", ["egonets", "deletion"])
def test_fused_messages_across_any_subgraphs(fused_operations, kind):
    options = SubgraphOptions(kind=kind, num_hops=1)
    net = small_network("sswl+-gin", subgraphs=options).double()
    assert_fused_equals_plain(net.eval(), molecule_batch())
    assert "pass_across" in fused_operations


def test_edges_with_statistics_of_copies_are_not_fused(fused_operations):
    net = continuous_network("ds-gin", subgraphs=SubgraphOptions(num_hops=2))
    found = [module for module in net.modules() if isinstance(module, Conv)]
    assert type(found[0].edge_encoder).__name__ == "ContinuousEncoder"
    graph = molecule_batch()
    graph.x = torch.randn(graph.num_nodes, 4).double()
    graph.edge_attr = torch.randn(graph.num_edges, 3).double()
    assert_fused_equals_plain(net.double(), graph)
    assert "inside" not in fused_operations


def all_kinds_of_edges():
    """A graph with parallel edges, a self loop, one-way edges and an isolated node."""
    graph = molecule_batch()
    loops = torch.tensor([[0, 1, 3, 0], [1, 1, 0, 1]])
    graph.edge_index = torch.cat([graph.edge_index, loops], dim=1)
    graph.edge_attr = torch.cat([graph.edge_attr, graph.edge_attr[:4]])
    graph.x = torch.cat([graph.x, graph.x[:1]])
    graph.batch = torch.cat([graph.batch, graph.batch[-1:]])
    return graph


@pytest.mark.parametrize("name", ["gin", "gcn", "sage"])
@pytest.mark.parametrize("make", [molecule_batch, all_kinds_of_edges])
def test_fused_messages_on_whole_graphs(fused_operations, name, make):
    net = network(name)
    assert_fused_equals_plain(net, make())
    assert fused_operations.count("run_on_graph") == len(net.layers)


def test_a_conv_beside_a_fused_layer_reads_its_edge_states(fused_operations):
    options = SubgraphOptions(num_hops=2)
    net = small_network("gin-ak+", subgraphs=options, plain_conv=True).double()
    assert_fused_equals_plain(net, all_kinds_of_edges())
    assert fused_operations.count("run_on_graph") == len(net.layers)


def doubled(_module, _given, output):
    return 2 * output


HOOKS = {
    "a conv": lambda conv: conv.register_forward_hook(doubled),
    "edges": lambda conv: conv.edge_encoder.register_forward_hook(doubled),
    "messages": lambda conv: conv.gnn.register_message_forward_hook(doubled),
}


@pytest.mark.parametrize("place", HOOKS)
def test_convs_with_hooks_are_not_fused(fused_operations, place):
    net = network("ds-gin")
    for module in [each for each in net.modules() if isinstance(each, Conv)]:
        HOOKS[place](module)
    assert_fused_equals_plain(net, molecule_batch())
    assert "inside" not in fused_operations


def test_convs_on_whole_graphs_with_hooks_are_not_fused(fused_operations):
    net = network("gin")
    for layer in net.layers:
        layer.kernels[0].gnn.register_forward_hook(doubled)
    assert_fused_equals_plain(net, molecule_batch())
    assert "run_on_graph" not in fused_operations


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["sun-gin", "sswl+-gin"])
def test_fused_messages_of_padded_batches_change_no_value(name, tmp_path, monkeypatch):
    data, used = edge_counts(), []
    config = small_config(
        data__name=data.info.name,
        model__name=name,
        train__batch_size=5,
        train__epochs=2,
        train__precision="64",
    )
    plain = run(config, data, tmp_path / "plain")
    monkeypatch.setattr(Machine, "captures", lambda *_: True)
    monkeypatch.setattr(Machine, "backend", fused_everywhere(used))
    padded = run(config, data, tmp_path / "padded")
    assert "inside" in used
    assert padded["scores"] == pytest.approx(plain["scores"], abs=1e-8)
