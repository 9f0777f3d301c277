"""Fixtures for the tests of kernels."""

import os

import pytest


@pytest.fixture
def fast():
    """The Triton kernels, where Triton's interpreter runs them."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("set TRITON_INTERPRET=1")
    pytest.importorskip("triton")
    from gnnak.nn.kernels import fast

    return fast


@pytest.fixture
def few_parts(fast, monkeypatch):
    """Partial sums of several tiles each, and several of them added at a time."""
    monkeypatch.setattr("gnnak.nn.kernels.fast.tiles.PARTS", 3)
    monkeypatch.setattr("gnnak.nn.kernels.fast.statistics.PARTS", 2)
    monkeypatch.setattr("gnnak.nn.kernels.fast.sums.AT_ONCE", 2)
