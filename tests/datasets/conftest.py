"""Give every test an empty cache folder."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Return the path of the cache folder, which does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("GNNAK_CACHE", str(folder))
    return folder


@pytest.fixture
def no_data(monkeypatch):
    """Unset `GNNAK_DATA`, so that no data files are found."""
    monkeypatch.delenv("GNNAK_DATA", raising=False)
