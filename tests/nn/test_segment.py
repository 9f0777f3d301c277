import pytest
import torch

from gnnak.errors import OptionError
from gnnak.nn.copies import lookup, segment_reduce

ROWS = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]], dtype=torch.double)


def test_lookup_takes_the_named_rows():
    got = lookup(ROWS, torch.tensor([2, 0, 0]))
    assert got.tolist() == [[5.0, 9.0], [1.0, 2.0], [1.0, 2.0]]
    assert lookup(ROWS, torch.tensor([], dtype=torch.long)).shape == (0, 2)


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        ("sum", [[0, 0], [6, 11], [0, 0], [3, 4], [0, 0]]),
        ("mean", [[0, 0], [3, 5.5], [0, 0], [3, 4], [0, 0]]),
    ],
)
def test_segment_reduce_has_zero_rows_for_missing_indices(reduce, wanted):
    """Fault of the published code: scatter without a size drops trailing nodes."""
    got = segment_reduce(ROWS, torch.tensor([1, 3, 1]), 5, reduce)
    assert got.tolist() == wanted


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("size", [0, 3])
def test_segment_reduce_of_nothing_is_zero(reduce, size):
    got = segment_reduce(ROWS[:0], torch.tensor([], dtype=torch.long), size, reduce)
    assert torch.equal(got, torch.zeros(size, 2, dtype=torch.double))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_segment_reduce_has_the_right_gradient(reduce):
    index = torch.tensor([1, 3, 1])
    rows = ROWS.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda values: segment_reduce(values, index, 5, reduce), rows
    )


def test_segment_reduce_sums_half_precision_in_float32():
    ones = torch.ones(4096, 1, dtype=torch.bfloat16)
    got = segment_reduce(ones, torch.zeros(4096, dtype=torch.long), 1, "sum")
    assert got.dtype == torch.bfloat16
    assert got.item() == 4096


def test_segment_reduce_refuses_an_unknown_pool():
    with pytest.raises(OptionError, match="reduce is 'max'; use one of: sum, mean"):
        segment_reduce(ROWS, torch.tensor([1, 3, 1]), 5, "max")
