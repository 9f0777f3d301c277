"""The Triton kernels of gated pooling against the plain ones, in the interpreter."""

import copy

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.layers.pool import Pool, gate_pools, norm_add_linear
from gnnak.fast.layers.rows import Rows
from gnnak.nn.norm import BatchNorm, RealRows, real_rows
from tests.fast.backends import path
from tests.fast.kernels.kernel_inputs import (
    GROUPS,
    WIDTHS,
    assert_agree,
    assert_same,
    constants,
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


def check(fast, sizes, width, gated=None, shuffled=True, of_batch=True, padding=None):
    """Compare forward and backward pass, with `gated` rows of the gate's table."""
    sizes = sizes if padding is None else [*sizes, 0]
    groups, key = groups_of(sizes, shuffled, padding or 0)
    count = len(key)
    z, index = rows(count, width, strided=True), torch.randint(gated or 1, (count,))
    gate = None if gated is None else rows(gated, width, strided=True)
    real = None if padding is None else torch.tensor(count - padding)
    k = constants(z, of_batch, real)
    assert_agree(fast, "gate_pool", z, k, gate, index, groups)
    grad = rows(len(sizes), width, strided=True)
    if padding is not None:
        grad[-1] = 0
    ours, theirs = (rows(count, width, strided=True) for _ in range(2))
    found = fast.gate_pool_backward(grad, z, k, gate, index, key, ours)
    wanted = plain.gate_pool_backward(grad, z, k, gate, index, key, theirs)
    assert_same((*found, ours), (*wanted, theirs))
    assert (found[2] is None) == (gate is None)


@pytest.mark.parametrize("case", GROUPS)
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("gated", [None, 4])
def test_gate_pool_agrees(fast, case, shuffled, gated):
    check(fast, GROUPS[case], 5, gated, shuffled)


@pytest.mark.parametrize(
    ("width", "gated"), [*((width, 1) for width in WIDTHS), (5, 28), (65, 28)]
)
def test_gate_pool_agrees_at_every_width(fast, width, gated):
    check(fast, [3, 0, 2], width, gated)


@pytest.mark.parametrize("of_batch", [False, True])
@pytest.mark.parametrize("padding", [None, 0, 90])
@pytest.mark.parametrize("gated", [None, 4])
def test_gate_pool_agrees_in_many_parts(few_parts, fast, of_batch, padding, gated):
    check(fast, [40, 3] * 5, 5, gated, of_batch=of_batch, padding=padding)


def test_gate_pool_agrees_on_one_real_row(fast):
    check(fast, [1], 5, 4, padding=40)


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
