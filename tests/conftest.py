"""Fixtures shared by all tests."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.quick import FEW, MOST, first_cases, limit_examples, start_no_programs

# PyTorch is imported inside the fixtures: the main process of `pytest -n 2` reads this
# file too, and its workers start only after that.


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "one case of every test function, none of those that start programs"
    parser.addoption("--quick", action="store_true", help=told)
    told = "as many examples as each property test asks for"
    parser.addoption("--all-examples", action="store_true", help=told)


def most_examples(config: pytest.Config) -> int:
    """Return the largest number of examples of a property test."""
    if config.getoption("all_examples"):
        return 10**6
    return FEW if config.getoption("quick") else MOST


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # imports leave no garbage
    usual = settings.default.max_examples
    most = min(usual, most_examples(config))
    settings.register_profile("limited", max_examples=most, deadline=None)
    settings.load_profile("limited")


def pytest_collection_modifyitems(config: pytest.Config, items: list) -> None:
    if config.getoption("quick"):
        items[:], left_out = first_cases(items)
        config.hook.pytest_deselected(items=left_out)
    limit_examples(items, most_examples(config))


def pytest_collection_finish() -> None:
    gc.freeze()  # what is imported is not searched for garbage again
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "corner_case" in metafunc.fixturenames:
        from gnnak.testing import small_graphs

        metafunc.parametrize("corner_case", list(small_graphs()), indirect=True)


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.config.getoption("quick"):
        start_no_programs(monkeypatch)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    # After a bfloat16 product that the processor cannot do, PyTorch leaves oneDNN
    # switched off for the whole process, which changes the rounding of later tests.
    torch.backends.mkldnn.set_flags(_enabled=True)


@pytest.fixture
def corner_case(request: pytest.FixtureRequest):
    """Each named corner case in turn, as a PyG `Data` with `x` [n, 4] in float64."""
    from gnnak.testing import small_graphs

    return small_graphs(channels=4, edge_channels=3)[request.param]


@pytest.fixture
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it skip without it."""
    folder = os.environ.get("GNNAK_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs real data: set GNNAK_DATA to its folder")
    return Path(folder)
