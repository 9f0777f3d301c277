"""Triton kernels of gated sums and added lifts against the plain ones."""

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import CentroidRows, GatedPool
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


def check_sums(fast, tables, all_groups, index):
    """Compare gated sums of random rows with the plain ones."""
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
    pools = [GatedPool(*groups_of(each, shuffled=True)) for each in sizes]
    of_subgraph = (torch.arange(80) > 39).long()
    heads = CentroidRows(
        rows(2, width, strided=True), torch.tensor([0, 79]), of_subgraph
    )
    values, index = rows(80, width), torch.randint(4, (80,))
    found, wanted = (
        kernels.gated_sums_backward(
            values, grads, tables[: len(sizes)], pools, index, heads if roots else None
        )
        for kernels in (fast, plain)
    )
    assert_same(found[0], wanted[0])
    for one, other in zip(found[1], wanted[1], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_same(one, other)


def test_messages_have_gradients_without_another_use_of_the_states(fast):
    grad, c, eps, e = rows(20, 5), rows(20, 5), rows(1, 1)[0], rows(9, 5, strided=True)
    assert_agree(fast, "messages_backward", grad, c, e, eps, edges_of(20, 60, 9), None)


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
        [half[:4]],
        [GatedPool(*groups_of([12, 8], shuffled=True))],
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
