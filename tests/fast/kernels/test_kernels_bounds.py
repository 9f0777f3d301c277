"""Kernels access only the elements of their tensors; faulty kernels are found."""

import pytest
import torch
import triton
import triton.language as tl

from gnnak.fast.kernels.records import CentroidRows, GatedPool
from tests.fast.kernels.compile_kernels import call_all
from tests.fast.kernels.kernel_inputs import assert_agree, rows


@triton.jit
def _copy(values, out, stride, count, read: tl.constexpr, write: tl.constexpr):
    """Copy `count` values, `stride` apart, with masks that end later than that."""
    place = tl.arange(0, 16)
    value = tl.load(values + place * stride, mask=place < count + read, other=0.0)
    tl.store(out + place, value, mask=place < count + write)


def copy(values, stride=1, read=0, write=0, count=5):
    out = torch.zeros(count)
    _copy[(1,)](values, out, stride, count, read, write)
    return out


def test_accesses_inside_of_tensors_pass(fast):
    values = torch.arange(30.0)
    assert copy(values[:5]).tolist() == [0, 1, 2, 3, 4]
    assert copy(values[3:8]).tolist() == [3, 4, 5, 6, 7]
    column = values.view(5, 6)[:, 1]
    assert copy(column, stride=6).tolist() == [1, 7, 13, 19, 25]


FAULTS = {
    "reads after the end": {"values": torch.ones(5), "read": 1},
    "writes after the end": {"values": torch.ones(16), "write": 1},
    "reads the rest of a larger tensor": {"values": torch.ones(9)[:5], "read": 1},
    "reads before the beginning": {"values": torch.ones(9)[4:], "stride": -1},
    "reads columns as if there were no other": {"values": torch.ones(5, 6)[:, 1]},
    "reads an empty tensor": {"values": torch.ones(0)},
}
"""By name, what the kernel `_copy` gets; it reads or writes five values."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_kernel_is_refused_that(fast, name):
    with pytest.raises(Exception, match=r"_copy (read|write)s outside of its tensors"):
        copy(**FAULTS[name])


@pytest.mark.parametrize("m", [0, 1, 33])
@pytest.mark.parametrize("width", [1, 65])
def test_gradients_of_gated_sums_of_few_rows_access_only_their_tensors(fast, width, m):
    centroid = torch.arange(min(m, 1))
    heads = CentroidRows(rows(len(centroid), width), centroid, torch.zeros(m).long())
    keys = (torch.randint(3, (m,)), torch.zeros(m).long())
    pools = [GatedPool(None, key) for key in keys]
    grads, tables = [rows(3, width), rows(1, width)], [rows(4, width), None]
    values, index = rows(m, width), torch.randint(4, (m,))
    assert_agree(
        fast, "gated_sums_backward", values, grads, tables, pools, index, heads
    )


CASES = {
    "some groups": (True, True, (3, 0, 40)),
    "a long group": (True, False, (0, 70, 0)),
    "one group of one row": (False, True, (1,)),
    "empty groups": (False, False, (0, 5, 0)),
}
"""By name, whether there is padding, whether there are gates, and sizes of groups."""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [1, 5, 65, 144, 300])
def test_all_kernels_access_only_their_tensors(fast, width, case):
    padded, gated, sizes = CASES[case]
    call_all(width, padded, gated, sizes, edge_copies=min(60, 9 * sum(sizes)), size=9)
