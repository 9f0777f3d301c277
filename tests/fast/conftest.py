"""Fixtures for the tests of kernels."""

import importlib
import os
import sys

import pytest
import torch


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
    monkeypatch.setattr("gnnak.fast.kernels.gpu.message_backward.PARTS", 3)
    monkeypatch.setattr("gnnak.fast.kernels.gpu.multiply.PARTS", 3)
    monkeypatch.setattr("gnnak.fast.kernels.gpu.statistics.PARTS", 2)
    monkeypatch.setattr("gnnak.fast.kernels.gpu.sums.AT_ONCE", 2)


@pytest.fixture
def fuses(monkeypatch):
    """Fused paths wherever there are some, on plain kernels; a list of their uses."""
    used: list[str] = []
    uplift = importlib.import_module("gnnak.nn.uplift")
    for name, module in list(sys.modules.items()):
        there = name.startswith("gnnak.") and name != "gnnak.fast.kernels"
        if there and hasattr(module, "has_fast_kernels"):
            monkeypatch.setattr(module, "has_fast_kernels", _not_compiled)
    fused = uplift.fused_encodings

    def noted(layer, *arguments):
        used.append(type(layer).__name__)
        return fused(layer, *arguments)

    monkeypatch.setattr(uplift, "fused_encodings", noted)
    return used


def _not_compiled(values):
    return not torch.compiler.is_compiling()
