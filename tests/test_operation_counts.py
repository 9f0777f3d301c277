"""The count of tensor operations, which other tests use."""

import torch

from tests.operation_counts import OperationCount


def test_operation_count_counts_no_views() -> None:
    values = torch.arange(6)
    with OperationCount() as count:
        total = int(values[1:].sum())
    assert total == 15
    assert count.names == ["sum.default", "_local_scalar_dense.default"]
    assert count.synchronising == 1
