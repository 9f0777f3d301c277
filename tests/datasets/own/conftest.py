"""A function that writes text files, for tests of own data."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a text file and return its path as text."""

    def write_text(text, name="m.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write_text
