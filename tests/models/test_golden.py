"""Networks with the published weights compute what the published code computes."""

import pytest
import torch

from gnnak.backend import PLAIN, use_backend
from tests.golden import CASES, GoldenCase, assert_golden


def test_every_published_case_is_there():
    assert len(CASES) == 21


@pytest.mark.parametrize("name", CASES)
def test_network_in_float64_matches_the_published_code(name, monkeypatch):
    with use_backend(PLAIN):
        assert_golden(name, monkeypatch)


@pytest.mark.parametrize("name", CASES)
def test_network_in_float32_matches_the_published_code(name, monkeypatch):
    with use_backend(PLAIN):
        assert_golden(name, monkeypatch, torch.float, outputs=2e-5, rest=2e-4)


@pytest.mark.parametrize("name", [name for name in CASES if "drop" in name.split("-")])
def test_sampled_subgraphs_match_the_published_code(name):
    case = GoldenCase(name)
    ours = case.subgraphs(training=True)
    for field in ("node", "subgraph", "hop"):
        assert torch.equal(getattr(ours, field), case.arrays[f"sampled/{field}"])
    assert torch.equal(ours.root, case.arrays["drop/selected"])
    assert torch.allclose(ours.scale(torch.double), case.arrays["drop/scale"])
