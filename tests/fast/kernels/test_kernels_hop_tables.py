"""Triton kernels of the tables of distances against the plain ones."""

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import HopLinears
from tests.fast.kernels.kernel_inputs import WIDTHS, assert_same, rows

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
    for one, other in zip(fast.hop_tables(d, linears), tables, strict=True):
        assert_same(one, other)
    grads = [torch.randn_like(table) for table in tables]
    found, wanted = (
        kernels.hop_tables_backward(d, linears, tables, grads)
        for kernels in (fast, plain)
    )
    assert_same(found[0], wanted[0])
    for kind in range(2):
        for one, other in zip(found[1][kind], wanted[1][kind], strict=True):
            assert_same(one, other)


@pytest.mark.parametrize("case", LINEARS)
def test_hop_tables_agree(fast, case):
    check(fast, rows(5, 16), linears_of(case, 9, 16))


@pytest.mark.parametrize("width", WIDTHS)
def test_hop_tables_agree_at_every_width(fast, width):
    case = "a narrower table that is added, and two gates"
    check(fast, rows(3, 5), linears_of(case, width, 5))


@pytest.mark.parametrize(("size", "inner"), [(1, 1), (2, 64), (17, 3), (128, 16)])
def test_hop_tables_agree_for_any_number_of_distances(fast, size, inner):
    case = "a narrower table that is added, and two gates"
    check(fast, rows(size, inner), linears_of(case, 6, inner))
