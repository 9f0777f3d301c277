import pytest
import torch

from gnnak.brec.trial import THRESHOLD, paired_test, verdict
from gnnak.errors import OptionError


def test_paired_test_of_one_channel_is_the_squared_t_statistic():
    first = torch.tensor([[1.0], [3.0], [2.0]])
    found = paired_test(first, torch.zeros(3, 1))
    # Mean 2, variance 1: 2 * 1 * 2, and three times that.
    assert found.released == pytest.approx(4.0)
    assert found.corrected == pytest.approx(12.0)
    assert not found.singular


def test_paired_test_is_invariant_to_linear_maps():
    torch.manual_seed(1)
    first, second = torch.randn(2, 32, 4).double()
    mixing = torch.randn(4, 4).double()
    found = paired_test(first, second)
    mixed = paired_test(first @ mixing, second @ mixing)
    assert mixed.corrected == pytest.approx(found.corrected)
    assert found.corrected == pytest.approx(32 * found.released)


def test_embeddings_that_do_not_depend_on_labels_are_distinguished_if_corrected():
    found = paired_test(torch.zeros(32, 16), torch.full((32, 16), 0.01))
    assert found.singular
    assert found.released == 0
    assert found.corrected > THRESHOLD


def test_equal_embeddings_are_not_distinguished():
    rows = torch.randn(32, 16).double()
    for other in (rows, rows * (1 + 1e-15)):
        found = paired_test(rows, other)
        assert found.corrected == 0


def test_threshold_belongs_to_the_corrected_test():
    torch.manual_seed(0)
    values = [paired_test(*torch.randn(2, 32, 16)) for _ in range(400)]
    above = sum(found.corrected > THRESHOLD for found in values)
    assert 5 <= above <= 40  # 5 percent are 20
    assert not any(found.released > THRESHOLD for found in values)


def test_verdict_needs_significance_and_reliability():
    assert verdict(100.0, 1.0) == (True, True)
    assert verdict(50.0, 1.0) == (False, True)
    assert verdict(100.0, 90.0) == (True, False)
    assert verdict(100.0, 100.0) == (False, False)


def test_paired_test_needs_two_equal_shapes():
    with pytest.raises(OptionError, match=r"shapes \[3, 2\] and \[4, 2\]; give two"):
        paired_test(torch.zeros(3, 2), torch.zeros(4, 2))
