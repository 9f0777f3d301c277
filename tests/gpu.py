"""Marks tests that need a GPU."""

import pytest
import torch

GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
"""For `pytest.param(..., marks=GPU)`."""


def needs_gpu(test):
    """Mark a test as one for `make gpu`, left out where there is no GPU."""
    for mark in GPU:
        test = mark(test)
    return test
