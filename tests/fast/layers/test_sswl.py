"""Fused layers of SSWL, SSWL+ and Local 2-FGNN against plain PyTorch."""

import copy

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch_geometric.nn import GINEConv

from gnnak.backend import use_backend
from gnnak.models.options import FamilyOptions
from gnnak.nn.base.convs import gcn, gine
from gnnak.nn.family import L2FGNNLayer, SSWLLayer, SSWLPlusLayer
from gnnak.nn.family.gnn import Conv
from gnnak.nn.norm import padded_sync_norms
from gnnak.optional import interprets_triton
from gnnak.subgraphs import EgoNets
from gnnak.subgraphs.whole import WholeGraphs
from gnnak.testing import small_graphs
from tests.fast.backends import assert_fused_equals_plain, fused_everywhere, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.kernels.test_kernels_gpu import assert_near
from tests.fast.layers.fused_layers import random_graph, randomize, state
from tests.fast.layers.test_fused_bf16 import error
from tests.gpu import needs_gpu
from tests.loading.test_padding import assert_same_on_padded, padded_and_plain
from tests.models.zoo import molecule_batch, small_network
from tests.strategies import graphs
from tests.two_processes import results_of

WIDTH = 5


class Encoder(nn.Linear):
    """An encoder of edge attributes, called as those of `L2FGNNLayer`."""

    def __init__(self, width=WIDTH):
        super().__init__(width, width)

    def forward(self, edge_attr, num_edges):
        return super().forward(edge_attr)


def sswl(layer, conv=gine):
    return lambda width, whole: layer(conv(width), conv(width), width, whole)


def local_2fgnn(encoders=2, **options):
    def build(width, whole):
        encode = [Encoder(width) for _ in range(encoders)]
        return L2FGNNLayer(width, encode, whole, **options)

    return build


def gine_with_fixed_eps(width):
    return GINEConv(gine(width).nn, eps=0.5)


LAYERS = {
    "sswl": sswl(SSWLLayer),
    "sswl+": sswl(SSWLPlusLayer),
    "sswl+ with fixed eps": sswl(SSWLPlusLayer, gine_with_fixed_eps),
    "l2fgnn": local_2fgnn(),
    "l2fgnn without encoders": local_2fgnn(encoders=0),
    "l2fgnn without context": local_2fgnn(context=False),
}
"""By name, functions that build a layer from its width and the option `whole`."""
SLOW = pytest.mark.skipif(
    interprets_triton(), reason="Triton's interpreter is slow, and runs few cases"
)
NETWORKS = pytest.mark.parametrize(
    "name",
    [
        pytest.param("sswl-gin", marks=SLOW),
        pytest.param("l2fgnn-gin", marks=SLOW),
        "sswl+-gin",
    ],
)


def make_layer(name, whole=True, width=WIDTH):
    layer = LAYERS[name](width, whole).double().train()
    randomize(layer)
    return layer


def inputs(edge_index, num_nodes, extractor=None, width=WIDTH):
    """Return random states, subgraphs, edges and edge attributes, in float64."""
    subgraphs = (extractor or WholeGraphs())(edge_index, num_nodes)
    h = torch.randn(subgraphs.num_copies, width).double()
    return h, subgraphs, edge_index, torch.randn(edge_index.size(1), width).double()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_fused_layer_matches_plain(fused_operations, name, whole):
    extractor = WholeGraphs() if whole else EgoNets(2)
    given = inputs(*random_graph(7, 20), extractor)
    assert_fused_equals_plain(make_layer(name, whole), *given, close=1e-9)
    assert fused_operations.count("update_copies") == 1


@pytest.mark.parametrize("name", list(small_graphs()))
def test_fused_layer_matches_plain_on_corner_cases(fused_operations, name):
    graph = small_graphs()[name]
    given = inputs(graph.edge_index, graph.num_nodes)
    for layer in ("sswl+", "l2fgnn"):
        assert_fused_equals_plain(make_layer(layer), *given, close=1e-9)


@settings(
    max_examples=2 if interprets_triton() else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(graph=graphs(max_nodes=6))
def test_fused_layer_matches_plain_on_any_graph(fused_operations, graph):
    for extractor in (WholeGraphs(), EgoNets(1)):
        given = inputs(*graph, extractor)
        for name in ("sswl", "sswl+", "l2fgnn"):
            layer = make_layer(name, whole=isinstance(extractor, WholeGraphs))
            assert_fused_equals_plain(layer, *given, close=1e-9)


@NETWORKS
@pytest.mark.parametrize("recompute", [pytest.param(False, marks=SLOW), True])
def test_fused_network_matches_plain(fused_operations, name, recompute):
    found = []
    for fused in (True, False):
        network = small_network(name).train()
        network.save_memory(recompute=recompute and fused)
        with path(fused):
            out = network(molecule_batch())
            (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum().backward()
        found.append({"out": out.detach()} | state(network))
    assert_same(*found)
    assert fused_operations.count("update_copies") == 2


@SLOW
@NETWORKS
def test_fused_network_ignores_padding(name):
    used: list[str] = []
    items, unpadded = padded_and_plain(extractor=WholeGraphs())
    network = small_network(name).train()
    with use_backend(fused_everywhere(used)):
        assert_same_on_padded((network, copy.deepcopy(network)), items, unpadded)
    assert used.count("update_copies") == 2 * len(items)


@SLOW
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_layer_ignores_padding_outside_of_a_network(fused_operations, name, fused):
    (item, *_), (alone, *_) = padded_and_plain(extractor=WholeGraphs())
    count, layers = alone.subgraphs.num_copies, [make_layer(name)]
    layers.append(copy.deepcopy(layers[0]))
    found = []
    for layer, one in zip(layers, (item, alone), strict=True):
        torch.manual_seed(0)
        h = torch.randn(item.subgraphs.num_copies, WIDTH).double()
        edge_attr = torch.randn(item.batch.num_edges, WIDTH).double()
        h = h[: one.subgraphs.num_copies].requires_grad_()
        given = one.subgraphs, one.batch.edge_index, edge_attr[: one.batch.num_edges]
        with path(fused):
            out = layer(h, *given)[:count]
            (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum().backward()
        found.append({"out": out.detach()} | state(layer))
    assert_same(*found)


@NETWORKS
def test_fused_network_with_autocast_is_as_exact_as_plain(fused_operations, name):
    network, batch, found = small_network(name).train(), molecule_batch(), {}
    for kind in ("wanted", "fused", "plain"):
        model = copy.deepcopy(network)
        model = model if kind == "wanted" else model.float()
        on = torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind != "wanted")
        with path(fused=kind == "fused"), on:
            out = model(batch)
        out.double().square().sum().backward()
        found[kind] = {"out": out.detach()} | state(model)
    assert fused_operations.count("update_copies") == 2
    for names in (["out"], [name for name, _ in network.named_parameters()]):
        off, allowed = (
            error(found[kind], found["wanted"], names) for kind in ("fused", "plain")
        )
        assert off < max(0.05, 2 * allowed)


def test_fused_layer_saves_few_tensors_of_node_copies(fused_operations):
    """The states, two sums, the hidden states of three MLPs, and the sum of outputs."""
    h, subgraphs, *edges = inputs(*random_graph(7, 20))
    saved = {}

    def note(tensor):
        if tensor.is_floating_point() and len(tensor) == subgraphs.num_copies:
            saved[tensor.untyped_storage().data_ptr()] = tensor.size(1) // WIDTH
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        make_layer("sswl+")(h.requires_grad_(), subgraphs, *edges)
    assert sorted(saved.values()) == [1, 1, 1, 1, 3]


def doubled(_module, _given, output):
    return 2 * output


class OwnLayer(SSWLPlusLayer):
    pass


class OwnConv(GINEConv):
    pass


def wide_conv(width):
    return GINEConv(
        nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    )


def without_norm(layer):
    layer.mlp[0][1] = nn.Identity()


def with_hook(layer):
    layer.mlp[1].register_forward_hook(doubled)


def with_frozen_norm(layer):
    layer.mlp[0][1].eval()


def with_wider_mlp(layer):
    layer.mlp[0][0] = nn.Linear(WIDTH, 2 * WIDTH, bias=False).double()
    layer.mlp[0][1] = type(layer.norm)(2 * WIDTH).double()
    layer.mlp[1] = nn.Linear(2 * WIDTH, WIDTH).double()


def with_norm_of_graphs(layer):
    layer.conv.gnn.nn[0][1].rows = "graphs"


def with_eps_per_channel(layer):
    layer.eps = nn.Parameter(torch.randn(WIDTH).double())


def with_replaced_forward(layer):
    layer.mlp[1].forward = torch.sin


def with_replaced_messages(layer):
    layer.messages = lambda h, *given: h.sin()


UNFUSED = {
    "evaluation": lambda layer: layer.eval(),
    "an eps per channel": with_eps_per_channel,
    "a module with a replaced method": with_replaced_forward,
    "a replaced method": with_replaced_messages,
    "a module without a norm": without_norm,
    "a hook": with_hook,
    "a norm in evaluation": with_frozen_norm,
    "MLPs of different widths": with_wider_mlp,
}
"""By name, functions that change an SSWL+ layer so that it is not fused."""
UNFUSED_BUILDS = {
    "a subclass of the layer": sswl(OwnLayer),
    "a subclass of the conv": sswl(SSWLPlusLayer, lambda w: OwnConv(gine(w).nn)),
    "another conv": sswl(SSWLPlusLayer, lambda w: Conv(gcn(w), w, reads_edges=False)),
    "an MLP without a norm": sswl(SSWLPlusLayer, wide_conv),
    "no norms": local_2fgnn(norm="none"),
}


@pytest.mark.parametrize("case", UNFUSED)
def test_changed_layers_are_not_fused(fused_operations, case):
    layer = make_layer("sswl+")
    UNFUSED[case](layer)
    assert_fused_equals_plain(layer, *inputs(*random_graph(6, 15)), close=1e-9)
    assert "update_copies" not in fused_operations


@pytest.mark.parametrize("case", UNFUSED_BUILDS)
def test_other_layers_are_not_fused(fused_operations, case):
    layer = UNFUSED_BUILDS[case](WIDTH, True).double()
    assert_fused_equals_plain(layer, *inputs(*random_graph(6, 15)), close=1e-9)
    assert "update_copies" not in fused_operations


def test_norms_that_count_other_rows_are_not_fused(fused_operations):
    (item, *_), _ = padded_and_plain(extractor=WholeGraphs())
    layer, subgraphs = make_layer("sswl+"), item.subgraphs
    with_norm_of_graphs(layer)
    h = torch.randn(subgraphs.num_copies, WIDTH).double()
    edge_attr = torch.randn(item.batch.num_edges, WIDTH).double()
    layer(h, subgraphs, item.batch.edge_index, edge_attr)
    assert "update_copies" not in fused_operations


@SLOW
@NETWORKS
def test_networks_in_evaluation_fuse_messages(fused_operations, name):
    assert_fused_equals_plain(small_network(name).eval(), molecule_batch())
    assert fused_operations.count("inside") == 2
    assert fused_operations.count("pass_across") == 2


@SLOW
def test_networks_without_norms_are_not_fused(fused_operations):
    net = small_network("l2fgnn-gin", family=FamilyOptions(norm="none")).train()
    assert_fused_equals_plain(net, molecule_batch())
    assert "update_copies" not in fused_operations


def outcome(graph, converted):
    """Return output, gradient of the states, gradients of weights, and statistics."""
    used, layer = [], make_layer("sswl+")
    if converted:
        layer = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    norms = [norm for norm in layer.modules() if isinstance(norm, nn.SyncBatchNorm)]
    h, *rest = graph
    h = h.clone().requires_grad_()
    with use_backend(fused_everywhere(used)), padded_sync_norms(norms):
        out = layer(h, *rest)
        (out * out.detach().cos()).sum().backward()
    assert used.count("update_copies") == 1
    grads = [weight.grad for weight in layer.parameters()]
    return out.detach(), h.grad, grads, dict(layer.named_buffers())


def graphs_of(nodes):
    """Return the inputs of a random graph or, for 0 nodes, of an empty one."""
    torch.manual_seed(0)
    empty = torch.zeros(2, 0, dtype=torch.long), 0
    return [inputs(*random_graph(count, 9) if count else empty) for count in nodes]


def outcomes(rank, nodes):
    """Return the outcomes of a layer and of a converted one on the process's graph."""
    return [outcome(graphs_of(nodes)[rank], converted) for converted in (False, True)]


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [(6, 4), (6, 0)])
def test_fused_layers_of_two_processes_equal_those_of_one(nodes, tmp_path):
    one, two = graphs_of(nodes)
    ends = torch.cat([one[2], two[2] + nodes[0]], dim=1)
    batch = torch.tensor([0, 1]).repeat_interleave(torch.tensor(nodes))
    subgraphs = WholeGraphs()(ends, sum(nodes), batch=batch)
    given = torch.cat([one[0], two[0]]), subgraphs, ends, torch.cat([one[3], two[3]])
    out, grad, grads, buffers = outcome(given, converted=False)
    for here, there in zip(*results_of(outcomes, tmp_path, nodes), strict=True):
        assert_same(torch.cat([here[0], there[0]]), out)
        assert_same(torch.cat([here[1], there[1]]), grad)
        assert_same([a + b for a, b in zip(here[2], there[2], strict=True)], grads)
        assert_same([here[3], there[3]], [buffers] * 2)


def on_gpu(name, width):
    """Yield results on a GPU: fused, not fused, and not fused in float64."""
    torch.manual_seed(0)
    first = make_layer(name, width=width)
    h, subgraphs, edge_index, edge_attr = inputs(*random_graph(40, 120), width=width)
    subgraphs, edge_index = subgraphs.to("cuda"), edge_index.cuda()
    kinds = (True, torch.float), (False, torch.float), (False, torch.double)
    for fused, dtype in kinds:
        layer = copy.deepcopy(first).to("cuda", dtype)
        states = h.to("cuda", dtype).requires_grad_()
        with path(fused):
            out = layer(states, subgraphs, edge_index, edge_attr.to("cuda", dtype))
            weights = torch.linspace(-1, 2, out.numel(), device="cuda").view_as(out)
            (out * weights).sum().backward()
        yield {"out": out.detach(), "h": states.grad} | state(layer)


@needs_gpu
@pytest.mark.parametrize("rounding", ["ieee", "tf32"])
@pytest.mark.parametrize("width", [24, 96])
@pytest.mark.parametrize("name", LAYERS)
def test_fused_layer_on_a_gpu_matches_plain(name, width, rounding, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.backends.cuda.matmul, "fp32_precision", rounding)
    # In TF32, errors of some gradients were up to 4 times those of the plain path.
    assert_near(*on_gpu(name, width), times=8 if rounding == "tf32" else 2)
