"""Fixtures for the tests of kernels."""

import os

import pytest

# As in tests/conftest.py, PyTorch is imported inside the fixtures.


@pytest.fixture(autouse=True)
def _accesses_checked(request):
    """Check every memory access of interpreted kernels, where this was asked for."""
    asked = os.environ.get("CHECK_ACCESSES") == "1"
    asked = asked or request.path.name == "test_kernels_bounds.py"
    if asked and os.environ.get("TRITON_INTERPRET") == "1":
        pytest.importorskip("triton")
        from tests.fast.bounds import accesses_checked

        with accesses_checked():
            yield
    else:
        yield


@pytest.fixture
def fast():
    """The Triton kernels, where Triton's interpreter runs them."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("set TRITON_INTERPRET=1")
    pytest.importorskip("triton")
    from gnnak.fast.kernels import gpu

    return gpu


@pytest.fixture
def few_parts(fast, monkeypatch):
    """Partial sums of several tiles each, and several of them added at a time."""
    monkeypatch.setattr("gnnak.fast.kernels.gpu.tiles.PARTS", 3)
    monkeypatch.setattr("gnnak.fast.kernels.gpu.product.PARTS", 3)
    monkeypatch.setattr("gnnak.fast.kernels.gpu.norm.PARTS", 2)
    monkeypatch.setattr("gnnak.fast.kernels.gpu.tiles.AT_ONCE", 2)


@pytest.fixture
def fused_operations():
    """Fuse layers on every device; the names of the fused operations that ran."""
    from gnnak.backend import use_backend
    from tests.fast.backends import fused_everywhere

    used: list[str] = []
    with use_backend(fused_everywhere(used)):
        yield used
