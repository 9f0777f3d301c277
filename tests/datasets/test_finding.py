from pathlib import Path

import pytest

from gnnak.datasets.cache import cache_dir, find_file
from gnnak.errors import OptionError


@pytest.fixture
def folders(tmp_path, monkeypatch, cache):
    made = [tmp_path / name for name in ("named", "variable")]
    for folder in (*made, cache):
        folder.mkdir()
    monkeypatch.setenv("GNNAK_DATA", str(made[1]))
    return (*made, cache)


def test_find_file_looks_in_data_dir_then_variable_then_cache(folders):
    named = folders[0]
    assert find_file("a.npz", named) is None
    for folder in reversed(folders):
        (folder / "a.npz").touch()
        assert find_file("a.npz", named) == folder / "a.npz"


def test_find_file_refuses_folders_that_are_not_there(monkeypatch, tmp_path):
    with pytest.raises(OptionError, match=r"data_dir is .*, which is not a folder"):
        find_file("a.npz", tmp_path / "none")
    monkeypatch.setenv("GNNAK_DATA", str(tmp_path / "none"))
    with pytest.raises(OptionError, match=r"GNNAK_DATA is .*, which is not a folder"):
        find_file("a.npz", None)


def test_cache_dir_follows_the_variables(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("GNNAK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "gnnak"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "gnnak"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_dir() == Path.home() / "Library" / "Caches" / "gnnak"
