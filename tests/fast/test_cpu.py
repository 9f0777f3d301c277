"""The CPU backend: layers against plain PyTorch, products against dense matrices."""

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
from tests.fast.backends import (
    assert_fused_equals_plain,
    assert_second_derivatives_equal,
    outcome,
)
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


def published_layer(nodes=12, **options):
    """Return a layer with the published options, and its inputs."""
    edge_index = random_graph(nodes)
    layer = make_layer(options=PUBLISHED, **options)
    subgraphs = EgoNets(2)(edge_index, nodes)
    return layer, *inputs(layer, edge_index, nodes, subgraphs)


def recording(used):
    encode = cpu_backend(0).implementations["encode"]

    def call(*given):
        result = encode(*given)
        used.append(result is not NotImplemented)
        return result

    return Backend("recording", {"encode": call})


def assert_agrees(layer, *given, runs=True):
    used = []
    with use_backend(recording(used)):
        assert_fused_equals_plain(layer, *given)
    assert used == [runs]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_base_gnns_agree_with_plain_pytorch(base, training):
    layer, *given = published_layer(base=base)
    assert_agrees(layer.train(training), *given)


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
    layer, *given = published_layer()
    with use_backend(cpu_backend(0)):
        assert_second_derivatives_equal(layer.eval(), *given)


def test_transforms_of_torch_func_agree_with_plain_pytorch():
    layer, x, *given = published_layer(8)
    layer.eval()
    several = torch.stack([x, x + 1, 2 * x], dim=1)

    def run(x):
        return layer(x, *given).square().sum()

    found = []
    for backend in (cpu_backend(0), PLAIN):
        with use_backend(backend):
            gradients = torch.func.vmap(torch.func.grad(run), in_dims=1)(several)
            found.append([gradients, torch.func.jvp(run, (x,), (x,))])
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["project", "transforms"])
def test_modules_that_a_user_replaced_run_in_plain_pytorch(name):
    layer, *given = published_layer()
    if name == "project":
        layer.project = nn.Sequential(layer.project, nn.Tanh())
    else:
        layer.transforms["context"][0][2] = nn.Tanh()
    assert_agrees(layer, *given, runs=False)


def test_two_steps_give_equal_bits():
    layer, x, subgraphs, e = published_layer(40)
    with use_backend(cpu_backend(0)):
        steps = [outcome(layer.float(), x.float(), subgraphs, e.float()) for _ in "ab"]
    torch.testing.assert_close(*steps, rtol=0, atol=0)


def test_a_hook_autocast_or_another_dtype_runs_in_plain_pytorch():
    layer, *given = published_layer()
    used = []
    with use_backend(recording(used)), torch.autocast("cpu", torch.bfloat16):
        layer.float()(given[0].float(), given[1], given[2].float())
    with use_backend(recording(used)):
        layer.bfloat16()(given[0].bfloat16(), given[1], given[2].bfloat16())
    assert used == [False, False]
    layer.double().project.register_forward_hook(lambda *_: None)
    assert_agrees(layer, *given, runs=False)


def test_small_batches_run_in_plain_pytorch():
    encode = cpu_backend().implementations["encode"]
    assert encode(*published_layer(), "sum") is NotImplemented


INDEX = torch.tensor([2, 0, 2, 1])
DENSE = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]]).double()


def test_gather_matrix_gathers_rows_and_its_transpose_sums_them():
    values, rows = torch.rand(3, 2).double(), torch.rand(4, 2).double()
    matrix = gather_matrix(INDEX, 3)
    assert torch.equal(matrix @ values, values[INDEX])
    torch.testing.assert_close(matrix.T @ rows, DENSE.T @ rows, rtol=1e-12, atol=1e-12)


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
    matrix = gather_matrix(torch.empty(0, dtype=torch.long), 2)
    assert torch.equal(matrix.T @ torch.empty(0, 3), torch.zeros(2, 3))


def test_gradients_of_products_can_be_differentiated_again():
    values = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    rows = torch.rand(4, 2, dtype=torch.double, requires_grad=True)
    matrix = gather_matrix(INDEX, 3)
    for product, given in ((matrix, values), (matrix.T, rows)):
        assert torch.autograd.gradcheck(lambda x, p=product: p @ x, given)
        assert torch.autograd.gradgradcheck(lambda x, p=product: (p @ x).sin(), given)
