"""Triton kernels of the tables of distances against the plain ones."""

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import HopLinears
from tests.fast.kernels.kernel_inputs import WIDTHS, assert_agree, assert_same, rows

LINEARS = {
    "one table that is added": (7, 0),
    "one gate": (None, 1),
    "two gates": (None, 2),
    "a narrower table that is added, and two gates": (3, 2),
    "a wider table that is added, and three gates": (130, 3),
}


def linears_of(case, width, inner):
    """Return Linears with random weights."""
    added, gates = LINEARS[case]
    weights = [] if added is None else [rows(added, inner)]
    weights += [rows(width, inner) for _ in range(gates)]
    return HopLinears(weights, [rows(1, width)[0] for _ in range(gates)])


def check(fast, d, linears):
    """Compare the tables, and all gradients."""
    tables = plain.hop_tables(d, linears)
    assert_same(fast.hop_tables(d, linears), tables)
    grads = [torch.randn_like(table) for table in tables]
    assert_agree(fast, "hop_tables_backward", d, linears, tables, grads)


@pytest.mark.parametrize("case", LINEARS)
def test_hop_tables_agree(fast, case):
    check(fast, rows(5, 16), linears_of(case, 9, 16))


@pytest.mark.parametrize(
    ("size", "inner", "width"),
    [(3, 5, width) for width in WIDTHS]
    + [(1, 1, 6), (2, 64, 6), (17, 3, 6), (128, 16, 6)],
)
def test_hop_tables_agree_at_every_width_and_number_of_distances(
    fast, size, inner, width
):
    case = "a narrower table that is added, and two gates"
    check(fast, rows(size, inner), linears_of(case, width, inner))
