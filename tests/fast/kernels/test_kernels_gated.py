"""Triton kernels of gates, pools and tables of distances against the plain ones."""

import copy

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import CentroidRows, GatedPool, HopLinears
from gnnak.fast.layers.norm import Pool, gate_pools, norm_add_linear
from gnnak.fast.layers.parts import Rows
from gnnak.nn.norm import BatchNorm, RealRows, real_rows
from tests.fast.backends import path
from tests.fast.kernels.kernel_inputs import (
    GROUPS,
    WIDTHS,
    assert_agree,
    assert_same,
    constants,
    edges_of,
    groups_of,
    rows,
)
from tests.fast.layers.fused_layers import (
    HOPS,
    LAYERS,
    inputs,
    make_layer,
    random_graph,
)


@pytest.mark.parametrize("width", WIDTHS)
def test_lift_adds_rows_of_a_table(fast, width):
    x, node = rows(7, width, strided=True), torch.randint(7, (40,))
    index = torch.randint(4, (40,))
    assert_agree(fast, "lift", x, rows(4, width), node, index, True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 40])
def test_node_states_are_added_to_a_slice_of_columns(fast, count, width):
    x, node, found = rows(7, width), torch.randint(7, (count,)), []
    into = rows(count, 3 * width)
    for kernels in (fast, plain):
        copied = into.clone()
        kernels.add_lifted(copied[:, width : 2 * width], x, node)
        found.append(copied)
    assert_same(*found)


def check_sums(fast, tables, all_groups, index):
    values = rows(len(index), 5 if tables[0] is None else tables[0].size(1))
    pools = [GatedPool(groups, None) for groups in all_groups]
    assert_agree(fast, "gated_sums", values, tables, pools, index)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("case", GROUPS)
def test_a_gated_sum_agrees(fast, case, shuffled):
    groups, key = groups_of(GROUPS[case], shuffled, padding=2)
    check_sums(fast, [rows(4, 5)], [groups], torch.randint(4, (len(key),)))


@pytest.mark.parametrize("width", WIDTHS)
def test_gated_sums_agree_at_every_width(fast, width):
    both = groups_of([3, 0, 2], True)[0], groups_of([1, 1, 1, 2], False)[0]
    check_sums(fast, list(rows(56, width).split(28)), both, torch.randint(28, (5,)))


@pytest.mark.parametrize("gated", [(True, True), (False, True), (True,)])
def test_gated_sums_agree_with_logits_of_all_rows(fast, gated):
    both = groups_of([30, 0, 10], True)[0], groups_of([40], False)[0]
    logits = [rows(40, 65) if each else None for each in gated]
    values, key = rows(40, 65), torch.randint(2, (40,))
    pools = [GatedPool(groups, key) for groups in both[: len(gated)]]
    assert_agree(fast, "gated_sums", values, logits, pools, None)
    grads = [rows(len(pool.groups), 65, strided=True) for pool in pools]
    pools = [GatedPool(pool.groups, key % len(pool.groups)) for pool in pools]
    found, wanted = (
        kernels.gated_sums_backward(
            values, grads, copy.deepcopy(logits), pools, None, None
        )
        for kernels in (fast, plain)
    )
    assert_same(found, wanted)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_gated_sums_agree_with_and_without_gates(fast, first, second):
    both = groups_of([3, 0, 2], True)[0], groups_of([5], True)[0]
    gates = [rows(4, 5) if gated else None for gated in (first, second)]
    check_sums(fast, gates, both, torch.randint(4, (5,)))


@pytest.mark.parametrize("roots", [False, True])
@pytest.mark.parametrize("second", [None, False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("width", [5, 65])
def test_gradients_of_gated_sums_agree(few_parts, fast, width, first, second, roots):
    sizes = [[3, 70, 0, 7], [40, 40]][: 1 if second is None else 2]
    grads = [rows(len(each), width, strided=True) for each in sizes]
    tables = [rows(4, width) if gated else None for gated in (first, second)]
    tables = tables[: len(sizes)]
    pools = [GatedPool(*groups_of(each, shuffled=True)) for each in sizes]
    of_subgraph = (torch.arange(80) > 39).long()
    centroid, states = torch.tensor([0, 79]), rows(2, width, strided=True)
    heads = CentroidRows(states, centroid, of_subgraph) if roots else None
    values, index = rows(80, width), torch.randint(4, (80,))
    assert_agree(
        fast, "gated_sums_backward", values, grads, tables, pools, index, heads
    )


def test_messages_have_gradients_without_another_use_of_the_states(fast):
    grad, c, eps, e = rows(20, 5), rows(20, 5), rows(1, 1)[0], rows(9, 5, strided=True)
    assert_agree(fast, "messages_backward", grad, c, e, eps, edges_of(20, 60, 9), None)


HALF = {
    "lift": lambda half, edges, hop: (half, half[:4], edges.source, hop),
    "lift and add": lambda half, edges, hop: (half, half[:4], edges.source, hop, True),
    "sum_by": lambda half, edges, hop: (half, edges.by_source),
    "table_sum": lambda half, edges, hop: (half, hop, 4),
    "gated_sums": lambda half, edges, hop: (
        half,
        [half[:4]],
        [GatedPool(edges.by_source, edges.source)],
        hop,
    ),
}


@pytest.mark.parametrize("name", HALF)
def test_half_precision_rows_are_summed_in_single_precision(fast, name):
    half, edges = torch.randn(20, 5).bfloat16(), edges_of(20, 20, 9)
    found, wanted = (
        getattr(kernels, name.partition(" ")[0])(
            *HALF[name](states, edges, torch.arange(20) % 4)
        )
        for kernels, states in ((fast, half), (plain, half.double()))
    )
    if name == "gated_sums":
        (found,), (wanted,) = found, wanted
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=1e-2)


LOGITS = 0


def check_pool(
    fast, sizes, width, gated=None, shuffled=True, of_batch=True, padding=None
):
    """Compare forward and backward pass, with `gated` rows of the gate's table.

    If `gated` is `LOGITS`, the gate has a row of logits for each row of z.
    """
    sizes = sizes if padding is None else [*sizes, 0]
    groups, key = groups_of(sizes, shuffled, padding or 0)
    count = len(key)
    z, index = rows(count, width, strided=True), torch.randint(gated or 1, (count,))
    gate = None if gated is None else rows(gated or count, width, strided=bool(gated))
    index = None if gated == LOGITS else index
    real = None if padding is None else torch.tensor(count - padding)
    k = constants(z, of_batch, real)
    assert_agree(fast, "gate_pool", z, k, gate, index, groups)
    grad = rows(len(sizes), width, strided=True)
    if padding is not None:
        grad[-1] = 0
    ours, theirs = (rows(count, width, strided=True) for _ in range(2))
    wanted = plain.gate_pool_backward(grad, z, k, gate, index, key, theirs)
    found = fast.gate_pool_backward(grad, z, k, gate, index, key, ours)
    assert_same((*found, ours), (*wanted, theirs))
    assert (found[2] is None) == (gate is None)


@pytest.mark.parametrize("case", GROUPS)
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("gated", [None, 4, LOGITS])
def test_gate_pool_agrees(fast, case, shuffled, gated):
    check_pool(fast, GROUPS[case], 5, gated, shuffled)


@pytest.mark.parametrize(
    ("width", "gated"),
    [*((width, 1) for width in WIDTHS), (5, 28), (65, 28), (65, LOGITS)],
)
def test_gate_pool_agrees_at_every_width(fast, width, gated):
    check_pool(fast, [3, 0, 2], width, gated)


@pytest.mark.parametrize("of_batch", [False, True])
@pytest.mark.parametrize("padding", [None, 0, 90])
@pytest.mark.parametrize("gated", [None, 4, LOGITS])
def test_gate_pool_agrees_in_many_parts(few_parts, fast, of_batch, padding, gated):
    check_pool(fast, [40, 3] * 5, 5, gated, of_batch=of_batch, padding=padding)


@pytest.mark.parametrize("gated", [4, LOGITS])
def test_gate_pool_agrees_on_one_real_row(fast, gated):
    check_pool(fast, [1], 5, gated, padding=40)


@pytest.mark.parametrize("name", ["gin-ak+", "two blocks", "gin-ak, no projection"])
def test_fused_encodings_take_expanded_gradients(fast, name):
    """The gradient of a sum is a tensor of ones with stride 0."""
    options, (edge_index, nodes) = LAYERS[name], random_graph(4, 7)
    layer = make_layer(**options).train()
    given = inputs(edge_index, nodes, options.get("hop_channels", HOPS))
    found = []
    for fused in (True, False):
        net = copy.deepcopy(layer)
        with path(fused):
            encodings = net.encode(*given, "sum")
        sum(values.sum() for values in encodings.values()).backward()
        found.append({k: p.grad for k, p in net.named_parameters()})
    assert_same(*found)


def test_statistics_before_pooling_are_those_of_real_rows(fast):
    """Moments from the product equal the statistics that the norm computes itself."""
    _, subgraphs, _ = inputs(*random_graph(6, 12))
    h, residual = (Rows(rows(subgraphs.num_copies, 5)) for _ in range(2))
    real = RealRows(nodes=torch.tensor(subgraphs.num_copies - 2))
    pool = Pool(BatchNorm(4).double(), subgraphs.by("subgraph"), subgraphs.subgraph)
    norm, matrix = BatchNorm(5).double(), rows(4, 5)
    with real_rows(real):
        z, _ = norm_add_linear(norm, h, residual, matrix, None, subgraphs, True, False)
        found, wanted = (
            gate_pools(each, [None], subgraphs.hop, [pool])
            for each in (z, z._replace(moments=None))
        )
    assert z.moments is not None
    assert_same(found, wanted)


LINEARS = {
    "one table that is added": (7, 0),
    "one gate": (None, 1),
    "two gates": (None, 2),
    "a narrower table that is added, and two gates": (3, 2),
    "a wider table that is added, and three gates": (130, 3),
}


def linears_of(case, width, inner):
    added, gates = LINEARS[case]
    weights = [] if added is None else [rows(added, inner)]
    weights += [rows(width, inner) for _ in range(gates)]
    return HopLinears(weights, [rows(1, width)[0] for _ in range(gates)])


def check_tables(fast, d, linears):
    tables = plain.hop_tables(d, linears)
    assert_same(fast.hop_tables(d, linears), tables)
    grads = [torch.randn_like(table) for table in tables]
    assert_agree(fast, "hop_tables_backward", d, linears, tables, grads)


@pytest.mark.parametrize("case", LINEARS)
def test_hop_tables_agree(fast, case):
    check_tables(fast, rows(5, 16), linears_of(case, 9, 16))


@pytest.mark.parametrize(
    ("size", "inner", "width"),
    [(3, 5, width) for width in WIDTHS]
    + [(1, 1, 6), (2, 64, 6), (17, 3, 6), (128, 16, 6)],
)
def test_hop_tables_agree_at_every_width_and_number_of_hops(fast, size, inner, width):
    case = "a narrower table that is added, and two gates"
    check_tables(fast, rows(size, inner), linears_of(case, width, inner))
