"""Fixtures that run the command line as a user does."""

import functools
import sys

import pytest

import gnnak
from gnnak.cli import main
from gnnak.datasets import load_dataset
from gnnak.training import launch
from tests.training.molecules import SMALL, SMILES, carbons

load_once = functools.cache(load_dataset)


@pytest.fixture
def fails(monkeypatch, capsys):
    """Run the program with wrong input, check exit code 2, return the error line."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["gnnak", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        assert stop.value.code == 2
        assert told.out == ""
        assert told.err.startswith("error: ")
        assert len(told.err.splitlines()) == 1
        return told.err

    return run


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Change into an empty folder to train in; data sets are loaded only once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNNAK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(launch, "load_dataset", load_once)
    return tmp_path


@pytest.fixture
def no_files(tmp_path, monkeypatch):
    """Set no data folder, an empty cache and a wide terminal."""
    monkeypatch.setenv("GNNAK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GNNAK_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Train a small model on molecules; return the path of its checkpoint."""
    folder = tmp_path_factory.mktemp("predict")
    gnnak.train(SMILES, carbons(SMILES), target="mass", folder=folder, **SMALL)
    return str(folder / "best.ckpt")
