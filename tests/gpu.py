"""Marks tests that need a GPU."""

import pytest
import torch


def needs_gpu(test):
    """Mark a test as one for `make gpu`, left out where there is no GPU."""
    there = torch.cuda.is_available()
    return pytest.mark.gpu(
        pytest.mark.skipif(not there, reason="there is no GPU")(test)
    )
