"""The CPU backend: layers against plain PyTorch, products against dense matrices."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from gnnak import GNNAK, PUBLISHED, EgoNets, RandomWalks, SubgraphDrop
from gnnak.backend import PLAIN, Backend, use_backend
from gnnak.fast.backend import cpu_backend
from gnnak.fast.cpu import Incidence, Ones, gather_matrix
from gnnak.nn.base.convs import gine
from gnnak.nn.base.stack import Stack
from gnnak.testing import small_graphs
from tests.fast.layers.test_general import random_graph

WIDTH, HOPS = 6, 3
BASES = {
    "GINE with an MLP": lambda w: gine(w),
    "GINE with one Linear": lambda w: pyg.GINEConv(nn.Linear(w, w)),
    "GINE with wide edges": lambda w: pyg.GINEConv(nn.Linear(w, 8), edge_dim=w),
    "one GINE with a norm": lambda w: Stack([gine(w)], w),
    "two GINEs": lambda w: Stack([gine(w), gine(w)], w),
    "GCN": lambda w: pyg.GCNConv(w, w),
}
OPTIONS = {
    "paper": {},
    "published": {"mlp_layers": 1, "gate_centroid": True},
    "deep transforms": {"mlp_layers": 2},
    "mean": {"reduce": "mean", "mlp_layers": 1},
    "no hops": {"hop_channels": 0, "mlp_layers": 1},
    "no centroid": {"encodings": ("subgraph", "context"), "mlp_layers": 1},
    "one encoding": {"encodings": ("context",)},
}


def make_layer(base="GINE with an MLP", hop="concat", **options):
    """Build a layer in float64."""
    torch.manual_seed(0)
    channels = options.setdefault("hop_channels", HOPS)
    width = WIDTH + (channels if hop == "concat" else 0)
    return GNNAK(BASES[base](width), WIDTH, WIDTH, hop=hop, **options).double()


def inputs(layer, edge_index, num_nodes, subgraphs):
    """Return random node states, the subgraphs and random edge states."""
    hops = layer.hop_table is not None and layer.hop == "concat"
    width = WIDTH + (layer.hop_table.weight.size(1) if hops else 0)
    e = torch.randn(edge_index.size(1), width, dtype=torch.double)
    x = torch.randn(num_nodes, WIDTH, dtype=torch.double)
    return x, subgraphs, None if isinstance(layer.gnn, pyg.GCNConv) else e


def recording(used):
    """Return the CPU backend, which appends to `used` whether it ran a layer."""
    encode = cpu_backend(0).implementations["encode"]

    def call(*given):
        result = encode(*given)
        used.append(result is not NotImplemented)
        return result

    return Backend("recording", {"encode": call})


def values(layer, backend, x, subgraphs, e):
    """Return output, gradients and running statistics of a copy of the layer."""
    layer, x = copy.deepcopy(layer), x.clone().requires_grad_()
    e = None if e is None else e.clone().requires_grad_()
    with use_backend(backend):
        out = layer(x, subgraphs, e)
        (out * torch.arange(out.numel()).view_as(out).cos()).sum().backward()
    grads = [x.grad, None if e is None else e.grad]
    of_weights = [weight.grad for weight in layer.parameters()]
    return [out.detach(), *grads, *of_weights, *layer.buffers()]


def assert_agrees(layer, *given, runs=True):
    """Compare the CPU backend with plain PyTorch."""
    used = []
    found = values(layer, recording(used), *given)
    assert used == [runs]
    wanted = values(layer, PLAIN, *given)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_base_gnns_agree_with_plain_pytorch(base, training):
    edge_index = random_graph(12)
    layer = make_layer(base, options=PUBLISHED).train(training)
    assert_agrees(layer, *inputs(layer, edge_index, 12, EgoNets(2)(edge_index, 12)))


@pytest.mark.parametrize("hop", ["concat", "add"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_of_a_layer_agree_with_plain_pytorch(options, hop):
    edge_index = random_graph(12)
    layer = make_layer(hop=hop, **options)
    assert_agrees(layer, *inputs(layer, edge_index, 12, EgoNets(2)(edge_index, 12)))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_layers_of_some_roots_agree_with_plain_pytorch(options):
    edge_index, roots = random_graph(12), torch.tensor([7, 2, 11, 3])
    layer, some = make_layer(**options), EgoNets(2)(edge_index, 12, roots=roots)
    assert_agrees(layer, *inputs(layer, edge_index, 12, some))


@pytest.mark.parametrize("name", small_graphs())
def test_small_graphs_agree_with_plain_pytorch(name):
    data = small_graphs()[name]
    layer = make_layer(options=PUBLISHED)
    subgraphs = EgoNets(2)(data.edge_index, data.num_nodes)
    given = inputs(layer, data.edge_index, data.num_nodes, subgraphs)
    assert_agrees(layer, *given, runs=subgraphs.num_copies > 1)


def test_sampled_subgraphs_agree_with_plain_pytorch():
    edge_index = random_graph(20)
    sampled = SubgraphDrop("random", 2)(EgoNets(2)(edge_index, 20), edge_index)
    layer = make_layer(options=PUBLISHED)
    assert_agrees(layer, *inputs(layer, edge_index, 20, sampled))


def test_walks_without_a_path_to_the_root_agree_with_plain_pytorch():
    edge_index = random_graph(12)
    walks = RandomWalks(length=3, repeats=2)(edge_index, 12)
    layer = make_layer(options=PUBLISHED)
    assert_agrees(layer, *inputs(layer, edge_index, 12, walks))


def test_gradients_can_be_differentiated_again():
    edge_index = random_graph(12)
    layer = make_layer(options=PUBLISHED).eval()
    x, subgraphs, e = inputs(layer, edge_index, 12, EgoNets(2)(edge_index, 12))
    found = []
    for backend in (cpu_backend(0), PLAIN):
        with use_backend(backend):
            given = x.clone().requires_grad_()
            out = layer(given, subgraphs, e).square().sum()
            (grad,) = torch.autograd.grad(out, given, create_graph=True)
            found.append(torch.autograd.grad(grad.square().sum(), layer.gnn.eps))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_transforms_of_torch_func_agree_with_plain_pytorch():
    edge_index = random_graph(8)
    layer = make_layer(options=PUBLISHED).eval()
    x, subgraphs, e = inputs(layer, edge_index, 8, EgoNets(2)(edge_index, 8))
    several = torch.stack([x, x + 1, 2 * x])

    def run(x):
        return layer(x, subgraphs, e).square().sum()

    found = []
    for backend in (cpu_backend(0), PLAIN):
        with use_backend(backend):
            gradients = torch.func.vmap(torch.func.grad(run), in_dims=1)(
                several.movedim(0, 1)
            )
            found.append([gradients, torch.func.jvp(run, (x,), (x,))])
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


def test_modules_that_a_user_replaced_run_in_plain_pytorch():
    edge_index = random_graph(12)
    for name in ("project", "transforms"):
        layer = make_layer(options=PUBLISHED)
        if name == "project":
            layer.project = nn.Sequential(layer.project, nn.Tanh())
        else:
            layer.transforms["context"][0][2] = nn.Tanh()
        given = inputs(layer, edge_index, 12, EgoNets(2)(edge_index, 12))
        assert_agrees(layer, *given, runs=False)


def test_two_steps_give_equal_bits():
    edge_index = random_graph(40)
    layer = make_layer(options=PUBLISHED).float()
    x, subgraphs, e = inputs(layer, edge_index, 40, EgoNets(2)(edge_index, 40))
    given = (x.float(), subgraphs, e.float())
    once, twice = (values(layer, cpu_backend(0), *given) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(once, twice, strict=True))


def test_a_hook_autocast_or_another_dtype_runs_in_plain_pytorch():
    edge_index = random_graph(12)
    layer = make_layer(options=PUBLISHED)
    given = inputs(layer, edge_index, 12, EgoNets(2)(edge_index, 12))
    used = []
    with use_backend(recording(used)), torch.autocast("cpu", torch.bfloat16):
        layer.float()(given[0].float(), given[1], given[2].float())
    with use_backend(recording(used)):
        layer.bfloat16()(given[0].bfloat16(), given[1], given[2].bfloat16())
    assert used == [False, False]
    layer.double().project.register_forward_hook(lambda *_: None)
    assert_agrees(layer, *given, runs=False)


def test_small_batches_run_in_plain_pytorch():
    edge_index = random_graph(12)
    layer = make_layer(options=PUBLISHED)
    given = inputs(layer, edge_index, 12, EgoNets(2)(edge_index, 12))
    encode = cpu_backend().implementations["encode"]
    assert encode(layer, *given, "sum") is NotImplemented


INDEX = torch.tensor([2, 0, 2, 1])
DENSE = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]]).double()


def test_gather_matrix_gathers_rows():
    values = torch.rand(3, 2, dtype=torch.double)
    assert torch.equal(gather_matrix(INDEX, 3) @ values, values[INDEX])


def test_a_transposed_gather_sums_rows():
    values = torch.rand(4, 2, dtype=torch.double)
    found = gather_matrix(INDEX, 3).T @ values
    torch.testing.assert_close(found, DENSE.T @ values, rtol=1e-12, atol=1e-12)


def test_the_transpose_of_sorted_groups_needs_no_order():
    matrix = gather_matrix(torch.tensor([0, 0, 2]), 3, in_order=True)
    rows = torch.tensor([[1.0], [2.0], [5.0]])
    assert (matrix.T @ rows).flatten().tolist() == [3, 0, 5]


def test_a_matrix_with_an_empty_row_and_a_repeated_one():
    by_row = Ones(torch.tensor([0, 0, 1]), torch.tensor([0, 2, 2, 3]))
    by_column = Ones(torch.tensor([0, 0, 2]), torch.tensor([0, 2, 3]))
    matrix = Incidence(by_row, by_column)
    assert (matrix @ torch.tensor([[1.0], [7.0]])).flatten().tolist() == [2, 0, 7]
    assert (matrix.T @ torch.tensor([[1.0], [5.0], [7.0]])).flatten().tolist() == [2, 7]


def test_a_matrix_without_ones_gives_zeros():
    none = torch.empty(0, dtype=torch.long)
    matrix = gather_matrix(none, 2)
    assert torch.equal(matrix.T @ torch.empty(0, 3), torch.zeros(2, 3))


def test_gradients_of_products_can_be_differentiated_again():
    values = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    rows = torch.rand(4, 2, dtype=torch.double, requires_grad=True)
    matrix = gather_matrix(INDEX, 3)
    for product, given in ((matrix, values), (matrix.T, rows)):
        assert torch.autograd.gradcheck(lambda x, p=product: p @ x, given)
        assert torch.autograd.gradgradcheck(lambda x, p=product: (p @ x).sin(), given)
