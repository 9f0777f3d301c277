"""Running the program as a user does."""

import sys

import pytest

from gnnak.cli import main


@pytest.fixture
def fails(monkeypatch, capsys):
    """Run the program with a wrong input; returns the one line it answers with."""

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
