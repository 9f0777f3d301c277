"""Padding in Triton's interpreter against PyTorch's, and compiled for a GPU."""

import pytest
import torch

from gnnak.backend import PLAIN, use_backend
from gnnak.fast import make_backend
from gnnak.loading import padding as plain_padding
from gnnak.loading.padding import Span
from gnnak.optional import interprets_triton
from tests.compiling import compiled

INTERPRETED = pytest.mark.skipif(
    not interprets_triton(), reason="set TRITON_INTERPRET=1"
)
COUNTS = {"some": [3, 0, 2, 5], "none": [0, 0], "a batch": [2], "many": [2000, 1]}
"""Rows of each batch."""
TYPES = [torch.float, torch.double, torch.long, torch.int32, torch.bool]


def bounds(counts):
    ends = torch.tensor([0, *counts]).cumsum(0)
    return ends[:-1], torch.tensor(counts)


def fast_and_plain(name, *arguments, **options):
    """Return the results of a Triton kernel, called as an operation, and of PyTorch."""
    found = make_backend().implementations[name](*arguments, **options)
    with use_backend(PLAIN):
        return found, getattr(plain_padding, name)(*arguments, **options)


def assert_agree(name, *arguments):
    found, wanted = fast_and_plain(name, *arguments)
    assert found.dtype == wanted.dtype
    assert torch.equal(found, wanted)


@INTERPRETED
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("more", [(), (3,), (2, 2)])
def test_rows_are_padded_alike(counts, dtype, more):
    value = (10 * torch.randn(sum(counts), *more)).to(dtype)
    for padding in (0, 1):
        size = max(counts) + 3
        assert_agree("pad_rows", value, *bounds(counts), size, padding)


@INTERPRETED
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("to_last", [False, True])
@pytest.mark.parametrize("room", [1, 7])
def test_numbers_are_padded_alike(counts, to_last, room):
    sizes = [count + room for count in counts]
    rows = Span(*bounds(counts), torch.tensor(sizes), max(sizes))
    others = [count + 5 for count in counts]
    more = bounds([count + 1 for count in counts])
    named = Span(*more, torch.tensor(others), max(others))
    values = [*torch.randint(99, (2, sum(counts)))]
    found, wanted = fast_and_plain("pad_numbers", values, rows, named, to_last=to_last)
    assert found.shape == wanted.shape
    for one, other, size in zip(found, wanted, sizes, strict=True):
        assert torch.equal(one[: 2 * size], other[: 2 * size])


@INTERPRETED
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_pointers_are_padded_alike(counts):
    first, count = bounds(counts)
    value = torch.randint(9, (sum(counts) + 1,)).cumsum(0)
    size, rows_first = max(counts) + 2, value[first]
    assert_agree("pad_pointers", value, first, first + count, size, rows_first)


@pytest.mark.slow
def test_padding_compiles_for_a_gpu(tmp_path):
    program = "tests.fast.compile_padding"
    assert len(compiled(program, tmp_path).split()) == 7
