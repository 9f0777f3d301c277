import logging
from pathlib import Path

import pytest

from gnnak.datasets.cache import (
    cache_dir,
    cached_path,
    find_file,
    load_cached,
)
from gnnak.datasets.counting import counting_graphs
from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs import read_npz
from tests.graphs.graph_strategies import assert_same


def make():
    return counting_graphs(0, 6)


def test_load_cached_gives_the_same_graphs_when_created_and_when_read():
    path = cached_path("counting", "seed", 0)
    made = load_cached(path, make)
    assert path.is_file()
    assert_same(load_cached(path, pytest.fail), made)
    assert_same(read_npz(path), made)


def test_cached_path_depends_on_every_option():
    paths = {cached_path("pattern", "seed", seed) for seed in (0, 1)}
    assert len({*paths, cached_path("pattern"), cached_path("counting")}) == 4


def test_load_cached_names_a_damaged_file():
    path = cached_path("counting")
    load_cached(path, make)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileFormatError, match="delete this cache file") as told:
        load_cached(path, make)
    assert str(path) in str(told.value)


def test_load_cached_returns_graphs_if_the_cache_cannot_be_written(cache, caplog):
    cache.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, logger="gnnak"):
        assert len(load_cached(cached_path("counting"), make).store) == 6
    assert "graphs were not cached" in caplog.text


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
