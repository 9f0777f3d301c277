"""Download archives over HTTPS; read them without running their code."""

import hashlib
import io
import os
import pickle
import secrets
import ssl
import urllib.request
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

from gnnak.errors import FileFormatError
from gnnak.graphs.readers import files

SUMS = "SHA256SUMS"
"""File with SHA-256 checksums, in the format of the command `sha256sum`."""
PINNED = {
    "MUTAG.zip": "c419bdc853c367d2d83da4973c45100954ae15e10f5ae2cddde6ca431f8207f6",
    "PTC_MR.zip": "5699a6d9f1bc5b3d71495f09ef50de53fa3e6bb24ead1150da678500229f5237",
    "PROTEINS.zip": "2da8de15284b88edabca2888ce5444d62f364ed41159260977088c4e53d4d848",
    "NCI1.zip": "10e1458f3bd9224f14e6d7627e74dcfd13e48d376d73935e7bd2900590ef1d82",
    "IMDB-BINARY.zip": (
        "b291ec8b26d85c70faa2ba0a2433e1f407ed2ef5d0fc072d36b9a95e49a1bb27"
    ),
    "REDDIT-BINARY.zip": (
        "982dc64ddade42a6365ba9c93f5080d0b9d315df0df492b57fd9fbb7e40dbe16"
    ),
    "ogbg-pcba.zip": "0bb12da2f3ec8b0bb80564114a6174fad2df6a3a0d3c19470b3a27813a7d4e53",
}
"""SHA-256 checksums of archives, by file name. The checksums of the TU collection are
from GraphDatasets.jl. The checksum of MolPCBA is from TensorFlow Datasets."""
CHUNK = 2**20
TIMEOUT = 60
"""Timeout of a connection, in seconds."""
MAX_BYTES = 2**32
"""Largest size of an archive, and of a file in an archive, in bytes."""


class OnlyHttps(urllib.request.HTTPRedirectHandler):
    """Redirect handler that follows a redirect only if its target is https."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        if not newurl.startswith("https://"):
            raise OSError(f"{req.full_url} redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> urllib.request.OpenerDirector:
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    return urllib.request.build_opener(secure, OnlyHttps)


def open_url(url: str) -> Any:
    return opener().open(url, timeout=TIMEOUT)


def fetch(url: str, folder: Path, name: str) -> Path:
    """Return `folder / name`; download the file if it is missing or was changed."""
    path, recorded = files.make_folder(folder) / name, recorded_sums(folder).get(name)
    known = recorded or PINNED.get(name)
    if path.is_file() and known == sha256_of(path):
        return path
    draft = path.with_name(f".{name}.{secrets.token_hex(8)}.part")
    try:
        _save(url, draft)
        found = sha256_of(draft)
        if known not in (None, found):
            who = folder / SUMS if recorded else "gnnak"
            raise FileFormatError(
                f"{name} from {url} has the SHA-256 checksum {found}, but {who} says "
                f"{known}; the archive was changed: if you trust the new one, write "
                f"the line '{found}  {name}' into {folder / SUMS}."
            )
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _record(folder, name, found)
    return path


@contextmanager
def opened_archive(url: str, folder: Path, name: str) -> Iterator[zipfile.ZipFile]:
    """Context manager: download a zip archive with `fetch`, and open it."""
    before = recorded_sums(folder).get(name)
    path = fetch(url, folder, name)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (FileFormatError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)
        _record(folder, name, before)
        raise


def recorded_sums(folder: Path) -> dict[str, str]:
    if not (folder / SUMS).is_file():
        return {}
    sums = {}
    for line in files.read_bytes(folder / SUMS, at_most=CHUNK).decode().splitlines():
        value, _, name = line.partition(" ")
        sums[name.strip().removeprefix("*")] = value.lower()
    return sums


def _record(folder: Path, name: str, value: str | None) -> None:
    lock_path = folder / f".{SUMS}.lock"
    with lock_path.open("ab", buffering=0) as lock, files.locked_file(lock):
        sums = {key: old for key, old in recorded_sums(folder).items() if key != name}
        if value is not None:
            sums[name] = value
        lines = [f"{value}  {name}\n" for name, value in sorted(sums.items())]
        files.write_bytes(folder / SUMS, "".join(lines).encode())


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _save(url: str, path: Path) -> None:
    received = 0
    with open_url(url) as response, open(path, "xb") as file:
        announced = response.headers.get("Content-Length")
        while chunk := response.read(CHUNK):
            received += len(chunk)
            if received > MAX_BYTES:
                raise OSError(f"{url} has more than {MAX_BYTES} bytes")
            file.write(chunk)
    if announced is not None and received != int(announced):
        raise OSError(f"{url} ended after {received} of {announced} bytes")


def open_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    where = Path(archive.filename or "archive").name
    told = f"{where} does not contain {name}; it is another archive than expected."
    with files.refusing(told, KeyError):
        info = archive.getinfo(name)
    if info.file_size > MAX_BYTES:
        raise FileFormatError(f"{where}: {name} has more than {MAX_BYTES} bytes.")
    return archive.open(info)


class PickledTensor(NamedTuple):
    """A tensor in a pickle, not yet decoded."""

    storage: bytes
    """The bytes of the tensor's storage, as `torch.save` writes them."""
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def decode(self) -> Tensor:
        with files.refusing("a pickled tensor is malformed."):
            content = io.BytesIO(self.storage)
            numbers = torch.load(content, map_location="cpu", weights_only=True)
            flat = torch.empty(0, dtype=numbers.dtype).set_(numbers._untyped_storage)
            return flat.as_strided(self.size, self.stride, self.offset).clone()


class _Function(tuple):
    """A function wrapped in a tuple, so that a pickle cannot change its attributes."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> Any:
        return self[0](*arguments)


def _rebuild(
    storage: bytes, offset: int, size: Any, stride: Any, *_: object
) -> PickledTensor:
    """Return an undecoded tensor; pickles call this instead of PyTorch's function."""
    return PickledTensor(storage, offset, tuple(size), tuple(stride))


KNOWN = {
    ("_codecs", "encode"): _Function([lambda text, _: text.encode("latin1")]),
    ("torch._utils", "_rebuild_tensor"): _Function([_rebuild]),
    ("torch._utils", "_rebuild_tensor_v2"): _Function([_rebuild]),
    ("torch.storage", "_load_from_bytes"): _Function([lambda content: content]),
    ("collections", "OrderedDict"): OrderedDict,
}
"""The only names that a pickle may refer to, and the objects that replace them."""


class _TensorsOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        told = "it is not read, because it could run code"
        with files.refusing(f"the pickle refers to {module}.{name}; {told}.", KeyError):
            return KNOWN[module, name]


def read_tensors(file: IO[bytes]) -> Any:
    """Read a pickle without running code; tensors are returned as `PickledTensor`."""
    with files.refusing("the pickle is damaged."):
        return _TensorsOnly(file).load()
