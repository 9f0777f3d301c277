import copy
from dataclasses import fields
from itertools import chain, combinations, product

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GINConv, GINEConv

from gnnak import (
    GNNAK,
    PAPER,
    PUBLISHED,
    EgoNets,
    LayerOptions,
    RandomWalks,
    SubgraphDrop,
)
from gnnak.errors import EdgeAttrError, OptionError, SubgraphError, WidthError
from gnnak.models import ModelOptions
from gnnak.nn.options import LayerChanges
from gnnak.subgraphs import egonets
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)
from gnnak.typing import ENCODINGS
from tests.nn.literal import by_the_equations

CHANNELS, HOPS, OUT = 4, 5, 6
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
SUBSETS = list(chain.from_iterable(combinations(ENCODINGS, r) for r in (1, 2, 3)))


def make_layer(hop_channels=HOPS, hop="concat", max_hops=3, **options) -> GNNAK:
    width = CHANNELS + (hop_channels if hop == "concat" else 0)
    conv = GINEConv(nn.Sequential(nn.Linear(width, 7), nn.ReLU()), edge_dim=3)
    layer = GNNAK(
        conv, CHANNELS, OUT, hop_channels=hop_channels, hop=hop, max_hops=max_hops,
        **options,
    )  # fmt: skip
    return layer.double().eval()


def graph(seed=0, num_nodes=7, num_edges=16):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    x = torch.randn(num_nodes, CHANNELS, generator=generator, dtype=torch.double)
    edge_attr = torch.randn(num_edges, 3, generator=generator, dtype=torch.double)
    return x, edge_index, edge_attr


def assert_equals_the_equations(layer, x, edge_index, edge_attr, num_hops):
    out = layer(x, egonets(edge_index, x.size(0), num_hops), edge_attr)
    literal = by_the_equations(layer, x, edge_index, edge_attr, num_hops)
    torch.testing.assert_close(out, literal, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("options", [PAPER, PUBLISHED, LayerOptions(mlp_layers=2)])
@pytest.mark.parametrize(
    ("hop_channels", "hop"), [(0, "concat"), (5, "concat"), (5, "add")]
)
@pytest.mark.parametrize("encodings", SUBSETS)
def test_gnnak_equals_the_equations_in_loops(encodings, hop_channels, hop, options):
    for reduce, fuse in product(("sum", "mean"), ("concat", "sum")):
        chosen = {"encodings": encodings, "reduce": reduce, "fuse": fuse}
        layer = make_layer(hop_channels, hop, **chosen, options=options)
        for seed, num_hops in ((0, 1), (1, 2)):
            given = graph(seed, num_nodes=5, num_edges=9)
            assert_equals_the_equations(layer, *given, num_hops)


def test_gnnak_of_corner_cases_equals_the_equations(corner_case):
    layer = make_layer(options=PUBLISHED)
    given = (corner_case[k] for k in ("x", "edge_index", "edge_attr"))
    assert_equals_the_equations(layer, *given, 2)


def test_gnnak_of_a_triangle_equals_values_done_by_hand():
    """No D2C, an identity GIN (x_i + sum of neighbours), all encodings summed."""
    layer = GNNAK(GINConv(nn.Identity()), 1, 1, hop_channels=0, fuse="sum")
    out = layer(torch.tensor([[1.0], [2.0], [4.0]]), egonets(PATH, 3, 1))
    # Sub[0] = {0, 1}: 3, 3. Sub[1] = {0, 1, 2}: 3, 7, 6. Sub[2] = {1, 2}: 6, 6.
    centroid = [3, 7, 6]
    subgraph = [3 + 3, 3 + 7 + 6, 6 + 6]
    context = [3 + 3, 3 + 7 + 6, 6 + 6]
    expected = [sum(row) for row in zip(centroid, subgraph, context, strict=True)]
    assert out.flatten().tolist() == expected


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("roots", [[], [2], [4, 0, 3], [6, 5, 4, 3, 2, 1]], ids=str)
def test_gnnak_of_some_roots_equals_the_equations_in_their_order(roots, reduce):
    x, edge_index, edge_attr = graph()
    for encodings in (ENCODINGS, ("centroid", "subgraph"), ("context",)):
        layer = make_layer(encodings=encodings, reduce=reduce, options=PUBLISHED)
        some = EgoNets(2)(edge_index, 7, roots=torch.tensor(roots, dtype=torch.long))
        out = layer(x, some, edge_attr)
        assert out.shape == (len(roots), OUT)
        literal = by_the_equations(layer, x, edge_index, edge_attr, 2, roots)
        torch.testing.assert_close(out, literal, rtol=1e-10, atol=1e-10)
        layer.max_copies = 5
        torch.testing.assert_close(layer(x, some, edge_attr), out)


def test_gnnak_of_all_roots_in_any_order_returns_the_states_of_nodes_in_order():
    layer, (x, edge_index, edge_attr) = make_layer(options=PUBLISHED), graph()
    wanted = layer(x, EgoNets(1)(edge_index, 7), edge_attr)
    order = torch.tensor([3, 6, 0, 2, 5, 1, 4])
    shuffled = EgoNets(1)(edge_index, 7, roots=order)
    torch.testing.assert_close(layer(x, shuffled, edge_attr), wanted)


def test_gnnak_tells_some_roots_from_a_sample_of_subgraph_drop():
    """From a sample, the states of all nodes are estimated."""
    layer, (x, edge_index, edge_attr) = make_layer(), graph()
    full = EgoNets(2)(edge_index, 7)
    sample = SubgraphDrop("random", 1)(full, edge_index)
    assert sample.num_subgraphs < 7
    some = EgoNets(2)(edge_index, 7, roots=sample.root)
    assert layer(x, sample, edge_attr).shape == (7, OUT)
    states = layer(x, some, edge_attr)
    assert states.shape == (sample.num_subgraphs, OUT)
    with pytest.raises(SubgraphError, match="are of a graph with 7 nodes; give the st"):
        layer(states[:, :CHANNELS], some, edge_attr)


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_gnnak_is_equivariant_and_batching_consistent(dtype):
    layer = make_layer(options=PUBLISHED).to(dtype)
    tolerance = 1e-9 if dtype == torch.double else 1e-4

    def function(data):
        subs = EgoNets(2)(data.edge_index, data.num_nodes)
        return layer(data.x, subs, data.edge_attr)

    graphs = list(small_graphs(CHANNELS, 3, dtype).values())
    for data in graphs:
        assert_permutation_equivariant(function, data, tolerance)
    assert_batching_consistent(function, graphs, tolerance)


def test_gnnak_leaves_its_input_alone_and_every_weight_gets_a_gradient():
    layer = make_layer(options=PUBLISHED).train()
    x, edge_index, edge_attr = graph()
    subs = egonets(edge_index, x.size(0), 2)
    before = [copy.deepcopy(value) for value in (x, edge_index, edge_attr, subs.hop)]
    layer(x, subs, edge_attr).square().sum().backward()
    after = (x, edge_index, edge_attr, subs.hop)
    assert all(map(torch.equal, before, after))
    without = [name for name, p in layer.named_parameters() if p.grad is None]
    assert without == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "options",
    [PAPER, pytest.param(PUBLISHED, marks=pytest.mark.slow)],
    ids=["paper", "published"],
)
def test_gnnak_compiled_equals_eager(options, backend):
    layer = make_layer(options=options).train()
    options = {"dynamic": True, "fullgraph": True, "backend": backend}
    compiled = torch.compile(copy.deepcopy(layer), **options)
    for seed, num_nodes in ((0, 7), (1, 9)):
        x, edge_index, edge_attr = graph(seed, num_nodes)
        subs = egonets(edge_index, x.size(0), 2)
        grads, outs = [], []
        for module in (layer, compiled):
            module.zero_grad()
            out = module(x, subs, edge_attr)
            out.square().sum().backward()
            outs.append(out.detach())
            grads.append([p.grad.clone() for p in module.parameters()])
        torch.testing.assert_close(*outs)
        torch.testing.assert_close(*grads)


def test_gnnak_runs_in_bf16_autocast():
    layer = make_layer(options=PUBLISHED).float().train()
    x, edge_index, edge_attr = graph()
    subs = egonets(edge_index, x.size(0), 2)
    full = layer(x.float(), subs, edge_attr.float())
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x.float(), subs, edge_attr.float())
    out.float().square().sum().backward()
    torch.testing.assert_close(out.float(), full, rtol=0.1, atol=0.3)
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_gnnak_of_half_precision_weights_runs(dtype, reduce):
    layer = GNNAK(GCNConv(8, 6), 4, 5, hop_channels=4, reduce=reduce).to(dtype)
    x, edge_index, _ = graph()
    out = layer(x.to(dtype), egonets(edge_index, x.size(0), 2))
    assert out.dtype == dtype
    out.sum().backward()


def test_gnnak_compiled_refuses_a_hop_beyond_max_hops():
    compiled = torch.compile(hops_of_one(), backend="aot_eager")
    with pytest.raises(RuntimeError, match="beyond max_hops=1"):
        compiled(torch.rand(3, 4), egonets(PATH, 3, 2))


def test_gnnak_state_dict_round_trips(tmp_path):
    layer, other = make_layer(options=PUBLISHED), make_layer(options=PUBLISHED)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    x, edge_index, edge_attr = graph()
    subs = egonets(edge_index, x.size(0), 2)
    assert torch.equal(layer(x, subs, edge_attr), other(x, subs, edge_attr))


def test_gnnak_has_no_weights_that_it_does_not_use():
    names = {name.split(".")[0] for name, _ in make_layer(0).named_parameters()}
    assert names == {"gnn", "project", "fuse"}
    alone = make_layer(encodings=("subgraph",), options=PUBLISHED)
    assert len(alone.transforms) == 0


def test_gnnak_repr_shows_its_options():
    text = repr(make_layer(options=PUBLISHED))
    for part in ("in_channels=4", "hop_channels=5", "reduce='sum'", "mlp_layers=1"):
        assert part in text


def test_gnnak_uses_the_last_table_row_for_copies_without_a_path_to_the_root():
    cycle = torch.stack([torch.arange(6), torch.arange(1, 7) % 6])
    subs = RandomWalks(length=4, repeats=1, max_hops=2)(cycle, 6)
    layer = GNNAK(GCNConv(8, 8), 4, 8, hop_channels=4, max_hops=2)
    layer(torch.rand(6, 4), subs).sum().backward()
    assert layer.hop_table.weight.grad[-1].abs().sum() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encodings": ("root",)}, "use one of: centroid, subgraph, context"),
        ({"encodings": ()}, "name at least one"),
        ({"encodings": ("context", "context")}, "each once"),
        ({"encodings": "context"}, "give a tuple"),
        ({"reduce": "median"}, "use one of: sum, mean"),
        ({"fuse": "gate"}, "use one of: concat, sum"),
        ({"hop": "mul"}, "use one of: concat, add"),
        ({"hop_channels": -1}, "hop_channels is -1"),
        ({"max_hops": 2.5}, "max_hops is 2.5"),
        ({"mlp_layers": -1}, "mlp_layers is -1; give a whole number"),
        ({"mlp_layers": 1.5}, "mlp_layers is 1.5; give a whole number"),
        ({"dropout": 1.0}, "dropout is 1.0; give a number with 0 <= dropout < 1"),
        ({"dropout": -0.1}, "dropout is -0.1; give a number"),
        ({"dropout": "half"}, "dropout is 'half'; give a number"),
        ({"dropout": float("nan")}, "dropout is nan; give a number"),
        ({"reduse": "mean"}, "no option 'reduse'; did you mean 'reduce'"),
    ],
)
def test_gnnak_names_what_is_known_for_a_wrong_option(options, message):
    with pytest.raises(OptionError, match=message):
        GNNAK(GCNConv(8, 8), 8, 8, **({"hop_channels": 0} | options))


NEAR = egonets(graph()[1], 7, 1)
WRONG = {
    "width": (
        lambda *_: GNNAK(GCNConv(64, 64), 64, 64),
        (WidthError, r"takes width 64, but gets 80 .*64 .*16"),
    ),
    "hop": (
        lambda *_: hops_of_one()(torch.rand(3, 4), egonets(PATH, 3, 2)),
        (SubgraphError, r"2 hops .* build it with max_hops=2"),
    ),
    "subgraphs of another graph": (
        lambda x, edges, e: make_layer()(x, egonets(edges, 9, 1), e),
        (SubgraphError, "9 rooted subgraphs for 7 nodes"),
    ),
    "edge_index in place of subgraphs": (
        lambda x, edges, e: make_layer()(x, edges, e),
        (SubgraphError, "subgraphs is a Tensor; give the"),
    ),
    "edge_attr of another length": (
        lambda x, _, e: make_layer()(x, NEAR, e[1:]),
        (EdgeAttrError, r"shape \[15, 3\]; give \[16, c\]"),
    ),
    "x of another width": (
        lambda x, _, e: make_layer()(x[:, 1:], NEAR, e),
        (WidthError, r"shape \[7, 3\]; give \[n, 4\]"),
    ),
    "a list as x": (
        lambda x, _, e: make_layer()([1.0], NEAR, e),
        (WidthError, r"give a tensor of real numbers \[n, 4\]"),
    ),
    "whole numbers as x": (
        lambda x, _, e: make_layer()(x.long(), NEAR, e),
        (WidthError, r"give a tensor of real numbers \[n, 4\]"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_gnnak_names_what_is_wrong(name):
    call, (error, message) = WRONG[name]
    with pytest.raises(error, match=message):
        call(*graph())


def hops_of_one():
    return GNNAK(GCNConv(8, 8), 4, 8, hop_channels=4, max_hops=1)


def test_gnnak_reads_edge_weights():
    layer = GNNAK(GCNConv(4, 6), 4, 6, hop_channels=0).double()
    x, edge_index, edge_attr = graph()
    subs, weight = egonets(edge_index, 7, 1), edge_attr[:, 0].abs()
    assert not torch.equal(layer(x, subs, weight), layer(x, subs))


def test_gnnak_reads_a_batch_from_pyg():
    batch = Batch.from_data_list(list(small_graphs(CHANNELS, 3).values()))
    subs = EgoNets(2)(batch.edge_index, batch.num_nodes)
    out = make_layer()(batch.x, subs, batch.edge_attr)
    assert out.shape == (batch.num_nodes, OUT)


def test_layer_options_of_the_paper_are_none():
    assert LayerOptions(mlp_layers=0, gate_centroid=False, dropout=0.0) == PAPER
    assert LayerOptions(mlp_layers=1, gate_centroid=True, dropout=0.0) == PUBLISHED


def test_layer_options_dropout_is_passed_on_to_the_fuse():
    data = small_graphs(4, dtype=torch.float)["star"]
    subgraphs = EgoNets(1)(data.edge_index, data.num_nodes)
    layer_options = LayerOptions(dropout=0.999999)
    layer = GNNAK(GCNConv(4, 4), 4, 4, hop="add", options=layer_options)
    assert not layer(data.x, subgraphs).any()
    assert layer.eval()(data.x, subgraphs).any()


def test_layer_changes_names_every_option():
    names = {field.name for field in fields(LayerOptions)}
    assert LayerChanges.__annotations__.keys() == names
    assert names < {field.name for field in fields(ModelOptions)}


def test_a_single_option_may_be_given_by_name():
    layer = GNNAK(GCNConv(4, 4), 4, 4, hop_channels=0, options=PUBLISHED)
    assert layer.options == PUBLISHED.changed(hop_channels=0)
