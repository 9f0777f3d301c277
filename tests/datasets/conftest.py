"""Every test has a cache of its own, and no network."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache; it does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("GNNAK_CACHE", str(folder))
    return folder


@pytest.fixture
def no_data(monkeypatch):
    """No folder with data files is known."""
    monkeypatch.delenv("GNNAK_DATA", raising=False)
