"""Triton kernels against the plain ones, in Triton's interpreter."""

import copy

import pytest
import torch

from gnnak import EgoNets
from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import Lifted
from gnnak.fast.layers.parts import edges_of as edges_of_subgraphs
from gnnak.graphs.named import undirected
from gnnak.nn.copies import lookup
from tests.fast.backends import assert_fused_equals_plain
from tests.fast.kernels.kernel_inputs import (
    GROUPS,
    WIDTHS,
    assert_agree,
    assert_same,
    constants,
    edges_of,
    groups_of,
    norm_of,
    rows,
)
from tests.fast.layers.fused_layers import inputs, make_layer, random_graph


@pytest.mark.parametrize(
    ("count", "width", "size"),
    [(0, 5, 3), (1, 5, 3), *((40, w, s) for w in WIDTHS for s in (None, 1, 28))],
)
def test_lift_agrees(fast, count, width, size):
    x, node = rows(7, width, strided=True), torch.randint(7, (count,))
    table = None if size is None else rows(size, 5)
    assert_agree(fast, "lift", x, table, node, torch.randint(size or 1, (count,)))


def test_lookup_takes_a_column_of_indices(fast):
    table, index = rows(5, 3).requires_grad_(), torch.tensor([[0, 4], [1, 4], [2, 4]])
    found = lookup(table, index[:, 0])
    assert torch.equal(found, table[:3])
    found.sum().backward()
    assert table.grad[:, 0].tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("case", GROUPS)
def test_sum_by_agrees(fast, case, padding, shuffled):
    groups, key = groups_of(GROUPS[case], shuffled, padding)
    assert_agree(fast, "sum_by", rows(len(key), 5, strided=True), groups)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_sums_agree_at_every_width(fast, width, shuffled):
    groups, key = groups_of([3, 0, 1, 12], shuffled, padding=2)
    assert_agree(fast, "sum_by", rows(len(key), width), groups)
    entries = torch.randint(7, (len(key),)), torch.rand(len(key)).double()
    assert_agree(fast, "sum_by", rows(7, width, strided=True), groups, None, entries)


# Programs share tables of more than 128 rows.
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize(
    ("width", "size"),
    [
        *((5, size) for size in (1, 28, 129, 200, 256)),
        *((width, 4) for width in WIDTHS),
        (65, 28),
    ],
)
def test_table_sum_agrees(fast, width, size, strided):
    index = torch.randint(size, (70,))
    index[0] = size - 1
    assert_agree(fast, "table_sum", rows(70, width, strided), index, size)


@pytest.mark.parametrize("count", [0, 1, 500])
def test_table_sum_agrees_on_few_and_many_rows(few_parts, fast, count):
    index = torch.randint(4, (count,))
    assert_agree(fast, "table_sum", rows(count, 5), index, 6)


@pytest.mark.parametrize(
    ("copies", "edge_copies", "edges"),
    [(20, 60, 9), (1, 1, 1), (1, 40, 2), (3, 0, 0), (3, 0, 5), (2, 90, 1)],
)
def test_messages_agree(few_parts, fast, copies, edge_copies, edges):
    check_messages(fast, copies, edge_copies, edges, 5)


@pytest.mark.parametrize("width", [1, 16, 65, 300])
def test_messages_agree_at_every_width(few_parts, fast, width):
    check_messages(fast, 8, 20, 5, width)


def check_messages(fast, copies, edge_copies, edges, width):
    """Compare forward and backward pass, with edge states that differ or are equal."""
    c, eps = rows(copies, width), rows(1, 1)[0]
    found = edges_of(copies, edge_copies, edges)
    grad, more = rows(copies, width), rows(copies, width)
    for e, each in (
        (rows(edges, width, strided=True), found),
        (rows(1, width), found._replace(by_edge=None)),
    ):
        assert_agree(fast, "messages", c, e, eps, each)
        assert_agree(fast, "messages_backward", grad, c, e, eps, each, more)
    repeated = plain.messages(c, e.expand(max(edges, 1), -1), eps, found)
    assert torch.equal(plain.messages(c, e, eps, each), repeated)


@pytest.mark.parametrize("width", [1, 16, 65, 300])
def test_messages_of_states_that_are_not_stored_agree(few_parts, fast, width):
    edge_index, nodes = undirected([(0, 1), (1, 2), (2, 3), (3, 1), (4, 5)], 7)
    subgraphs = EgoNets(2)(edge_index, nodes)
    e = rows(edge_index.size(1), width, strided=True)
    found = edges_of_subgraphs(subgraphs, e)
    c = Lifted(rows(nodes, width), rows(3, width), subgraphs.node, subgraphs.hop)
    eps, grad = rows(1, 1)[0], rows(subgraphs.num_copies, width)
    assert_agree(fast, "messages", c, e, eps, found)
    assert_agree(fast, "messages_backward", grad, c, e, eps, found, None)
    stored = plain.messages(c.stored(), e, eps, found)
    torch.testing.assert_close(plain.messages(c, e, eps, found), stored)


def test_an_edge_gets_no_gradient_where_rounding_makes_its_message_zero(fast):
    # In float32, (1 + 1e-9) - 1 = 0, but (1 - 1) + 1e-9 > 0.
    edge_index, nodes = undirected([(0, 1)], 2)
    subgraphs = EgoNets(1)(edge_index, nodes)
    x, table = torch.ones(2, 16), torch.full((2, 16), 1e-9)
    c = Lifted(x, table, subgraphs.node, subgraphs.hop)
    e, grad = -torch.ones(2, 16), torch.ones(subgraphs.num_copies, 16)
    edges, eps = edges_of_subgraphs(subgraphs, e), torch.zeros(1)
    assert not fast.messages_backward(grad, c, e, eps, edges, None)[1].any()


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize(
    ("count", "real"),
    [(70, None), (2, None), (70, 40), (70, 70), (130, 65), (5, 2), (5, 1), (5, 0)],
)
def test_norm_constants_agree(fast, strided, count, real):
    check_norm_constants(fast, rows(count, 5, strided), norm_of(5), real)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("strided", "real"), [(False, None), (True, 65)])
def test_norm_constants_agree_at_every_width(fast, width, strided, real):
    check_norm_constants(fast, rows(130, width, strided), norm_of(width), real)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("real", [None, 400])
def test_norm_constants_agree_in_many_parts(few_parts, fast, momentum, training, real):
    norm = norm_of(5, training, momentum)
    before = copy.deepcopy(norm.state_dict())
    check_norm_constants(fast, 3 + rows(1000, 5), norm, real)
    if not training:
        assert_same(norm.state_dict(), before)


def check_norm_constants(fast, h, norm, real):
    other = copy.deepcopy(norm)
    real = None if real is None else torch.tensor(real)
    ours, theirs = (
        kernels.norm_constants(h, asked, real)
        for kernels, asked in ((fast, norm), (plain, other))
    )
    assert ours[4:] == theirs[4:]
    assert_same(ours[:4], theirs[:4])
    assert_same(dict(norm.named_buffers()), dict(other.named_buffers()))


NORMS = [(True, None), (True, 30), (False, None), (False, 30)]
"""Whether the norm uses batch statistics, and the number of real rows; None = all."""


@pytest.mark.parametrize(("of_batch", "real"), NORMS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_norm_act_agrees(few_parts, fast, of_batch, real, relu, adds):
    check_norm_act(fast, rows(200, 5, True), of_batch, real, relu, adds)


@pytest.mark.parametrize(
    ("count", "width", "real"),
    [(40, 5, 1), *((count, width, None) for count in (1, 33) for width in WIDTHS)],
)
def test_norm_act_agrees_at_every_width(fast, count, width, real):
    check_norm_act(fast, rows(count, width), True, real, True, True)


def check_norm_act(fast, h, of_batch, real, relu, adds):
    k = constants(h, of_batch, None if real is None else torch.tensor(real))
    residual = rows(*h.shape, strided=True) if adds else None
    assert_agree(fast, "norm_act", h, k, relu, residual)
    assert_agree(fast, "norm_act_backward", rows(*h.shape), h, k, relu)


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_on_fast_kernels_agrees(fast, training):
    layer = make_layer(convs=2).train(training)
    assert_fused_equals_plain(layer, *inputs(*random_graph(4, 7)), close=1e-9)
