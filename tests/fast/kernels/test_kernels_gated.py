"""Triton kernels of gated sums and added lifts against the plain ones."""

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import CentroidRows, GatedGrad, GatedSum
from tests.fast.kernels.kernel_inputs import (
    GROUPS,
    WIDTHS,
    assert_agree,
    assert_same,
    edges_of,
    groups_of,
    rows,
)


@pytest.mark.parametrize("width", WIDTHS)
def test_lift_adds_rows_of_a_table(fast, width):
    x, node = rows(7, width, strided=True), torch.randint(7, (40,))
    index = torch.randint(4, (40,))
    assert_agree(fast, "lift", x, rows(4, width), node, index, True)


def check_sums(fast, values, sums, index):
    """Compare gated sums with the plain ones."""
    found, wanted = (each.gated_sums(values, sums, index) for each in (fast, plain))
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("case", GROUPS)
def test_a_gated_sum_agrees(fast, case, shuffled):
    groups, key = groups_of(GROUPS[case], shuffled, padding=2)
    index = torch.randint(4, (len(key),))
    check_sums(fast, rows(len(key), 5), [GatedSum(rows(4, 5), groups)], index)


@pytest.mark.parametrize("width", WIDTHS)
def test_gated_sums_agree_at_every_width(fast, width):
    groups, key = groups_of([3, 0, 2], shuffled=True)
    other, _ = groups_of([1, 1, 1, 2], shuffled=False)
    index = torch.randint(28, (len(key),))
    sums = [GatedSum(rows(28, width), each) for each in (groups, other)]
    check_sums(fast, rows(len(key), width), sums, index)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_gated_sums_agree_with_and_without_gates(fast, first, second):
    groups, _ = groups_of([3, 0, 2], shuffled=True)
    other, _ = groups_of([5], shuffled=True)
    gates = [rows(4, 6) if gated else None for gated in (first, second)]
    sums = [GatedSum(gates[0], groups), GatedSum(gates[1], other)]
    check_sums(fast, rows(5, 6), sums, torch.randint(4, (5,)))


def grads(sizes, width, gated):
    """Return the gradients of the sums of groups, with or without gates."""
    _, key = groups_of(sizes, shuffled=True)
    table = rows(4, width) if gated else None
    return GatedGrad(rows(len(sizes), width, strided=True), table, key)


@pytest.mark.parametrize("roots", [False, True])
@pytest.mark.parametrize("second", [None, False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("width", [5, 65])
def test_gradients_of_gated_sums_agree(few_parts, fast, width, first, second, roots):
    sums = [grads([3, 70, 0, 7], width, first)]
    if second is not None:
        sums.append(grads([40, 40], width, second))
    centroid = torch.tensor([0, 79])
    heads = CentroidRows(
        rows(2, width, strided=True), centroid, (torch.arange(80) > 39).long()
    )
    given = (rows(80, width), sums, torch.randint(4, (80,)), heads if roots else None)
    found, wanted = fast.gated_sums_backward(*given), plain.gated_sums_backward(*given)
    assert_same(found[0], wanted[0])
    for one, other in zip(found[1], wanted[1], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_same(one, other)


def test_messages_have_gradients_without_another_use_of_the_states(fast):
    found = edges_of(20, 60, 9)
    e = rows(9, 5, strided=True)
    given = (rows(20, 5), rows(20, 5), e, rows(1, 1)[0], found, None)
    assert_agree(fast, "messages_backward", *given)


HALF = {
    "lift": lambda half, edges: (half, half[:4], edges.source, edges.target % 4),
    "lift and add": lambda half, edges: (
        half,
        half[:4],
        edges.source,
        edges.target % 4,
        True,
    ),
    "sum_by": lambda half, edges: (half, edges.by_source),
    "table_sum": lambda half, edges: (half, torch.arange(20) % 4, 4),
    "gated_sums": lambda half, edges: (
        half,
        [GatedSum(half[:4], groups_of([12, 8], shuffled=True)[0])],
        torch.arange(20) % 4,
    ),
}


@pytest.mark.parametrize("name", HALF)
def test_half_precision_rows_are_summed_in_single_precision(fast, name):
    half = torch.randn(20, 5).bfloat16()
    edges = edges_of(20, 20, 9)
    torch.manual_seed(0)
    function = name.partition(" ")[0]
    found = getattr(fast, function)(*HALF[name](half, edges))
    torch.manual_seed(0)
    wanted = getattr(plain, function)(*HALF[name](half.double(), edges))
    if name == "gated_sums":
        (found,), (wanted,) = found, wanted
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=1e-2)
