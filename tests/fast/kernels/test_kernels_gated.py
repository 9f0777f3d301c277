"""Triton kernels of gated sums and added lifts against the plain ones."""

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import CentroidRows, GatedPool
from tests.fast.kernels.kernel_inputs import (
    GROUPS,
    WIDTHS,
    assert_agree,
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
