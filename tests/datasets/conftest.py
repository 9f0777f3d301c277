"""An empty cache folder for every test, and a pretended internet."""

import io
import zipfile

import pytest

from gnnak.datasets import archive, benchmarks


class Internet:
    """Contents by the end of their address, and the addresses opened so far."""

    def __init__(self):
        self.contents = {}
        self.opened = []
        self.announced = None

    def open(self, url):
        assert url.startswith("https://")
        self.opened.append(url)
        for end, content in self.contents.items():
            if url.endswith(end):
                response = io.BytesIO(content)
                length = len(content) if self.announced is None else self.announced
                response.headers = {"Content-Length": str(length)}
                return response
        raise OSError("no route to host")


def zipped(members):
    """Return a zip archive, given the contents of its files by name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


class Evil:
    """An object whose pickle creates a file when it is read carelessly."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return eval, (f"open({str(self.path)!r}, 'w').close()",)


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


@pytest.fixture
def internet(monkeypatch, no_data):
    """Return an internet without any address, whose archives may have any content."""
    monkeypatch.setattr(archive, "PINNED", {})
    monkeypatch.setattr(benchmarks, "SIZES", {})
    found = Internet()
    monkeypatch.setattr(archive, "open_url", found.open)
    return found
