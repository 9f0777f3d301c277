"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
import torch

from gnnak.testing import small_graphs


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.fixture(params=list(small_graphs()))
def corner_case(request: pytest.FixtureRequest):
    """Each named corner case in turn, as a PyG `Data` with `x` [n, 4] in float64."""
    return small_graphs(channels=4, edge_channels=3)[request.param]


@pytest.fixture
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it skip without it."""
    folder = os.environ.get("GNNAK_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs real data: set GNNAK_DATA to its folder")
    return Path(folder)
