"""The Triton kernels that gate and pool against the plain ones, as interpreted."""

import copy

import pytest
import torch

from gnnak.fast.kernels import plain
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
    set_fused,
)


def check(fast, sizes, width, gated=None, shuffled=True, of_batch=True, padding=None):
    """Both passes; `gated` rows of a gate, `padding` rows in a group of their own."""
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
    assert_same((*found[:2], ours), (*wanted[:2], theirs))
    assert (found[2] is None) == (wanted[2] is None) == (gate is None)
    if gate is not None:
        assert_same(found[2], wanted[2])


@pytest.mark.parametrize("case", GROUPS)
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("gated", [None, 4])
def test_gate_pool_agrees(fast, case, shuffled, gated):
    check(fast, GROUPS[case], 5, gated, shuffled)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("gated", [1, 28])
def test_gate_pool_agrees_at_every_width(fast, width, gated):
    check(fast, [3, 0, 2], width, gated)


@pytest.mark.parametrize("of_batch", [False, True])
@pytest.mark.parametrize("padding", [None, 0, 90])
@pytest.mark.parametrize("gated", [None, 4])
def test_gate_pool_agrees_in_many_parts(few_parts, fast, of_batch, padding, gated):
    check(fast, [20] * 30, 5, gated, of_batch=of_batch, padding=padding)


def test_gate_pool_agrees_on_one_real_row(fast):
    check(fast, [1], 5, 4, padding=40)


@pytest.mark.parametrize("name", ["gin-ak+", "two products", "gin-ak, one width"])
def test_fused_encodings_take_gradients_that_are_all_one(fast, name):
    options, (edge_index, nodes) = LAYERS[name], random_graph()
    layer = make_layer(**options).train()
    given = inputs(edge_index, nodes, options.get("hop_channels", HOPS))
    found = []
    for fused in (True, False):
        net = set_fused(copy.deepcopy(layer), fused)
        encodings = net.encodings_of(*given, "sum")
        sum(values.sum() for values in encodings.values()).backward()
        found.append({k: p.grad for k, p in net.named_parameters()})
    assert_same(*found)
