"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from gnnak.testing import small_graphs
from tests.quick import FEW, first_cases, start_no_programs, with_few_examples


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "one case of every test function, none of those that start programs"
    parser.addoption("--quick", action="store_true", help=told)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        settings.register_profile("quick", max_examples=FEW, deadline=None)
        settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list) -> None:
    if config.getoption("quick"):
        items[:], left_out = first_cases(items)
        with_few_examples(items)
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.config.getoption("quick"):
        start_no_programs(monkeypatch)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # After a bfloat16 product that the processor cannot do, PyTorch leaves oneDNN off
    # for the rest of the process, and later tests would round in another way.
    torch.backends.mkldnn.set_flags(_enabled=True)


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
