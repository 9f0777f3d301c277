"""Find a trained network by path, by name, or on the Hugging Face hub."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from gnnak.errors import FileFormatError
from gnnak.optional import missing_package
from gnnak.training.records.checkpoint import Checkpoint, load_checkpoint
from gnnak.training.records.folder import CARD, CONFIG, WEIGHTS, is_folder, load_folder


def download(name: str, revision: str | None = None) -> Path:
    """Download a pretrained folder, or find it in the cache of `huggingface_hub`.

    Args:
        name: `owner/name` on the hub.
        revision: Branch, tag or commit; None = the newest.

    Returns:
        The local folder.

    Raises:
        FileFormatError: If there is no such name, or the hub does not answer.
        MissingPackageError: If huggingface_hub is not installed.
    """
    hub = _import_hub(f"there is no file or folder {name}, and downloading it from the")
    try:
        found = hub.snapshot_download(
            name, revision=revision, allow_patterns=[CONFIG, WEIGHTS, CARD]
        )
    except Exception as error:  # the hub's client raises errors of many types
        raise FileFormatError(
            f"{name} is not here, and cannot be downloaded from the Hugging Face hub: "
            f"{_reason(error)}; check the name and the connection."
        ) from error
    return Path(found)


def upload(folder: Path, name: str, private: bool = False) -> str:
    """Upload a pretrained folder; create the repository if it does not exist.

    Args:
        folder: The folder.
        name: `owner/name` on the hub.
        private: Whether a new repository is private.

    Returns:
        The address of the repository.

    Raises:
        FileFormatError: If the upload fails, for example without a login.
        MissingPackageError: If huggingface_hub is not installed.
    """
    hub = _import_hub("uploading to the")
    try:
        address = hub.create_repo(name, private=private, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=str(folder))
    except Exception as error:  # the hub's client raises errors of many types
        raise FileFormatError(
            f"{name} cannot be uploaded to the Hugging Face hub: {_reason(error)}; log "
            "in with `hf auth login`, and check the name."
        ) from error
    return str(address)


def _import_hub(purpose: str) -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        use = f"{purpose} Hugging Face hub needs"
        raise missing_package(use, "huggingface_hub") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


SHIPPED = Path(__file__).parents[1] / "pretrained"
"""The folder of the networks that are installed with the package."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""The form of a name on the Hugging Face hub, `owner/name`."""
FilePath = str | os.PathLike[str]


def shipped_names() -> list[str]:
    """Return the names of the networks that are installed with the package."""
    return sorted(path.name for path in SHIPPED.glob("*") if is_folder(path))


def find_local(path: FilePath) -> Checkpoint:
    """Read a trained network from this machine.

    Args:
        path: A checkpoint (`best.ckpt`), a pretrained folder, or the name of a network
            that is installed with the package. A file or folder is preferred.

    Raises:
        FileFormatError: If there is none of these.
        CheckpointError: If a file is damaged or of another version.
    """
    _check_type(path)
    where = Path(path)
    if is_folder(where):
        return load_folder(where)
    name, shipped = os.fspath(path).lower(), shipped_names()
    if name in shipped and not where.is_file():
        return load_folder(SHIPPED / name)
    if shipped and not where.exists():
        raise FileFormatError(
            f"there is no file {where}; give a checkpoint, a folder of "
            "save_pretrained, or a network that is installed with gnnak: "
            f"{', '.join(shipped)}."
        )
    if where.is_dir():
        inside = where / "best.ckpt"
        if inside.is_file():
            return load_checkpoint(inside)
        if (where / "last.ckpt").is_file():
            raise FileFormatError(
                f"{where} is an unfinished run; finish it with gnnak train and "
                "--resume, which writes best.ckpt."
            )
        raise FileFormatError(
            f"the folder {where} has no config.json and no best.ckpt; give a "
            "checkpoint, or a folder of save_pretrained."
        )
    return load_checkpoint(where)


def find(path: FilePath, revision: str | None = None) -> Checkpoint:
    """Read a trained network from this machine, or else from the Hugging Face hub.

    Args:
        path: As in `find_local`, or `owner/name` on the hub.
        revision: Branch, tag or commit on the hub; None = the newest.

    Raises:
        FileFormatError: If there is no such file, or the download fails.
        CheckpointError: If a file is damaged or of another version.
        MissingPackageError: If the hub is needed, but huggingface_hub is missing.
    """
    _check_type(path)
    name = os.fspath(path)
    if not Path(path).exists() and HUB_NAME.fullmatch(name):
        return load_folder(download(name, revision))
    return find_local(path)


def _check_type(path: object) -> None:
    """Refuse what is neither a string nor a path."""
    if not isinstance(path, str | os.PathLike):
        raise FileFormatError(
            f"the path is {path!r}; give the path of a checkpoint or of a folder of "
            "save_pretrained."
        )
