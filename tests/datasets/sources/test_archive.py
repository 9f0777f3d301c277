import hashlib
import ssl
import urllib.request
import zipfile

import pytest

from gnnak.datasets.sources import archive
from gnnak.datasets.sources.archive import (
    SUMS,
    OnlyHttps,
    fetch,
    open_member,
    opener,
    recorded_sums,
)
from gnnak.errors import FileFormatError
from tests.datasets.sources.internet import zipped

URL = "https://example.org/a.zip"


def test_fetch_records_the_checksum_and_downloads_once(internet, tmp_path):
    internet.contents["a.zip"] = b"content"
    for _ in range(2):
        assert fetch(URL, tmp_path, "a.zip").read_bytes() == b"content"
    assert internet.opened == [URL]
    digest = hashlib.sha256(b"content").hexdigest()
    assert (tmp_path / SUMS).read_text() == f"{digest}  a.zip\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [SUMS, "a.zip"]


def test_fetch_downloads_a_partial_archive_again(internet, tmp_path):
    internet.contents["a.zip"] = b"content"
    (tmp_path / "a.zip").write_bytes(b"cont")
    assert fetch(URL, tmp_path, "a.zip").read_bytes() == b"content"
    (tmp_path / "a.zip").write_bytes(b"cont")
    assert fetch(URL, tmp_path, "a.zip").read_bytes() == b"content"
    assert len(internet.opened) == 2


def test_fetch_refuses_a_download_that_ends_early_and_tries_again(internet, tmp_path):
    internet.contents["a.zip"], internet.announced = b"content", 100
    with pytest.raises(OSError, match="ended after 7 of 100 bytes"):
        fetch(URL, tmp_path, "a.zip")
    assert list(tmp_path.iterdir()) == []
    internet.announced = None
    assert fetch(URL, tmp_path, "a.zip").read_bytes() == b"content"


def test_fetch_refuses_an_archive_that_was_changed(internet, tmp_path):
    internet.contents["a.zip"] = b"content"
    path = fetch(URL, tmp_path, "a.zip")
    path.unlink()
    internet.contents["a.zip"] = b"changed"
    with pytest.raises(FileFormatError, match="the archive was changed: if you trust"):
        fetch(URL, tmp_path, "a.zip")
    assert not path.exists()
    assert recorded_sums(tmp_path)["a.zip"] == hashlib.sha256(b"content").hexdigest()


def test_fetch_obeys_a_checksum_that_the_user_wrote(internet, tmp_path):
    internet.contents["a.zip"] = b"content"
    (tmp_path / SUMS).write_text(f"{'0' * 64} *a.zip\n")
    with pytest.raises(FileFormatError, match=f"SHA256SUMS says {'0' * 64}"):
        fetch(URL, tmp_path, "a.zip")


def test_fetch_refuses_an_archive_that_is_too_large(internet, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 5)
    internet.contents["a.zip"] = b"content"
    with pytest.raises(OSError, match="has more than 5 bytes"):
        fetch(URL, tmp_path, "a.zip")
    assert list(tmp_path.iterdir()) == []


def test_opener_verifies_certificates_and_host_names():
    (context,) = (
        handler._context
        for handler in opener().handlers
        if isinstance(handler, urllib.request.HTTPSHandler)
    )
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def test_redirects_stay_on_https():
    request = urllib.request.Request(URL)
    handlers = [type(handler) for handler in opener().handlers]
    assert OnlyHttps in handlers
    assert urllib.request.HTTPRedirectHandler not in handlers
    with pytest.raises(OSError, match="which is not https"):
        OnlyHttps().redirect_request(request, None, 302, "", {}, "http://example.org")
    followed = OnlyHttps().redirect_request(request, None, 302, "", {}, URL + "?dl=1")
    assert followed.full_url == URL + "?dl=1"


def test_open_member_names_a_missing_and_a_large_file(tmp_path, monkeypatch):
    (tmp_path / "a.zip").write_bytes(zipped({"one": b"content"}))
    with zipfile.ZipFile(tmp_path / "a.zip") as opened:
        with open_member(opened, "one") as file:
            assert file.read() == b"content"
        with pytest.raises(FileFormatError, match=r"a\.zip does not contain two; it"):
            open_member(opened, "two")
        monkeypatch.setattr(archive, "MAX_BYTES", 5)
        with pytest.raises(FileFormatError, match=r"a\.zip: one has more than 5 bytes"):
            open_member(opened, "one")
