import hashlib
import io
import pickle
import ssl
import urllib.request
import zipfile
from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.datasets import archive
from gnnak.datasets.archive import (
    KNOWN,
    SUMS,
    OnlyHttps,
    PickledTensor,
    fetch,
    open_member,
    opener,
    read_tensors,
    recorded_sums,
)
from gnnak.errors import FileFormatError
from tests.datasets.conftest import Evil, zipped

URL = "https://example.org/a.zip"


def test_fetch_records_the_checksum_and_downloads_once(internet, tmp_path):
    internet.contents["a.zip"] = b"content"
    for _ in range(2):
        assert fetch(URL, tmp_path, "a.zip").read_bytes() == b"content"
    assert internet.opened == [URL]
    digest = hashlib.sha256(b"content").hexdigest()
    assert (tmp_path / SUMS).read_text() == f"{digest}  a.zip\n"
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == [SUMS, "a.zip"]


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


def test_fetch_obeys_a_pinned_checksum_unless_the_user_wrote_another(
    internet, tmp_path, monkeypatch
):
    right, other = (hashlib.sha256(text).hexdigest() for text in (b"right", b"other"))
    monkeypatch.setattr(archive, "PINNED", {"a.zip": right})
    internet.contents["a.zip"] = b"other"
    with pytest.raises(FileFormatError, match=f"gnnak says {right}; .* '{other}  a.z"):
        fetch(URL, tmp_path, "a.zip")
    assert [path.name for path in tmp_path.iterdir()] == []
    (tmp_path / "a.zip").write_bytes(b"right")
    assert fetch(URL, tmp_path, "a.zip").read_bytes() == b"right"
    assert len(internet.opened) == 1
    (tmp_path / SUMS).write_text(f"{other}  a.zip\n")
    assert fetch(URL, tmp_path, "a.zip").read_bytes() == b"other"


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


WHOLE = pickle.dumps([{"a": torch.arange(4)}])


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_read_tensors_equals_pickle(protocol):
    base = torch.arange(12).view(3, 4)
    tensors = [base, base.t(), base[1:, ::2], torch.tensor(1.5), torch.zeros(0, 3)]
    tensors += [torch.tensor([1, 2], dtype=kind) for kind in (torch.int8, torch.half)]
    content = pickle.dumps([{"a": 1, "b": tensor} for tensor in tensors], protocol)
    found = read_tensors(io.BytesIO(content))
    for entry, tensor in zip(found, tensors, strict=True):
        decoded = entry["b"].decode()
        assert decoded.dtype == tensor.dtype
        assert torch.equal(decoded, tensor)


def test_read_tensors_never_runs_a_pickled_call(tmp_path):
    for content in (Evil(tmp_path / "evil"), [torch.ones(1), Evil(tmp_path / "evil")]):
        with pytest.raises(FileFormatError, match=r"refers to .*eval; it is not read"):
            read_tensors(io.BytesIO(pickle.dumps(content)))
    assert not (tmp_path / "evil").exists()


def test_decode_never_runs_a_call_in_a_storage(tmp_path):
    hidden = io.BytesIO()
    torch.save(Evil(tmp_path / "evil"), hidden)
    for storage in (hidden.getvalue(), pickle.dumps(Evil(tmp_path / "evil")), b""):
        with pytest.raises(FileFormatError, match="a pickled tensor is malformed"):
            PickledTensor(storage, 0, (1,), (1,)).decode()
    assert not (tmp_path / "evil").exists()


def test_decode_refuses_a_shape_beyond_the_storage():
    (tensor,) = read_tensors(io.BytesIO(pickle.dumps([torch.arange(4)])))
    for size, stride, offset in (((5,), (1,), 0), ((2,), (2**40,), 0), ((1,), (1,), 9)):
        with pytest.raises(FileFormatError, match="malformed"):
            PickledTensor(tensor.storage, offset, size, stride).decode()


def test_known_names_cannot_be_changed_by_a_pickle():
    before = dict(KNOWN)
    names = (b"torch.storage _load_from_bytes", b"collections OrderedDict")
    for module, name in (pair.split() for pair in names):
        build = b"c%b\n%b\n(dX\x01\x00\x00\x00aI1\nsb." % (module, name)
        with pytest.raises(FileFormatError, match="the pickle is damaged"):
            read_tensors(io.BytesIO(build))
    assert before == KNOWN
    assert not hasattr(OrderedDict, "a")


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_read_tensors_of_damaged_bytes_returns_or_raises_file_format_error(at, byte):
    content = bytearray(WHOLE)
    content[at] = byte
    for damaged in (bytes(content), WHOLE[:at]):
        try:
            read_tensors(io.BytesIO(damaged))[0]["a"].decode()
        except (FileFormatError, AttributeError, KeyError, TypeError, IndexError):
            continue
