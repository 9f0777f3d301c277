"""Padding in Triton's interpreter against PyTorch's, and compiled for a GPU."""

import pytest
import torch

from gnnak.backend import PLAIN, use_backend
from gnnak.fast.kernels import runs_kernels
from gnnak.loading.padding import pad_rows
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


@INTERPRETED
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("more", [(), (3,), (2, 2)])
def test_rows_are_padded_alike(counts, dtype, more):
    from gnnak.fast.extraction import pad_rows as fast_pad_rows

    value = (10 * torch.randn(sum(counts), *more)).to(dtype)
    for padding in (0, 1):
        size = max(counts) + 3
        found = fast_pad_rows(runs_kernels, value, *bounds(counts), size, padding)
        with use_backend(PLAIN):
            wanted = pad_rows(value, *bounds(counts), size, padding)
        assert found.dtype == wanted.dtype
        assert torch.equal(found, wanted)


@pytest.mark.slow
def test_padding_compiles_for_a_gpu(tmp_path):
    program = "tests.fast.compile_padding"
    assert len(compiled(program, tmp_path).split()) == 8
