"""Fast paths with the published weights compute what the published code computes."""

import pytest
import torch

from gnnak.backend import use_backend
from gnnak.fast.backend import cpu_backend
from tests.fast.backends import fused_everywhere, num_fused_layers
from tests.golden import CASES, assert_golden
from tests.gpu import needs_gpu

FUSED = [
    name
    for name in CASES
    if "-ak" in name and "ppgn" not in name and "molpcba" not in name
]
"""Cases with GNN-AK layers that are fused, both in evaluation and in training. PPGN has
fused blocks instead; `molpcba` has one encoding alone, and so no transform."""


@pytest.mark.parametrize("name", CASES)
def test_cpu_backend_matches_the_published_code(name, monkeypatch):
    with use_backend(cpu_backend(min_copies=0)):
        assert_golden(name, monkeypatch)


@pytest.mark.parametrize("name", CASES)
def test_fused_layers_match_the_published_code(name, monkeypatch):
    used: list[str] = []
    with use_backend(fused_everywhere(used)):
        assert_golden(name, monkeypatch)
    if name in FUSED:
        layers = 3 if name == "gin-ak-plus" else 2
        assert num_fused_layers(used) == 2 * layers


@needs_gpu
@pytest.mark.parametrize("name", CASES)
def test_gpu_kernels_match_the_published_code(name, monkeypatch):
    given = {"dtype": torch.float, "device": "cuda"}
    assert_golden(name, monkeypatch, **given, outputs=2e-5, rest=2e-4)
