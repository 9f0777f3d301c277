"""Upload pretrained folders to the Hugging Face hub, and download them.

The package `huggingface_hub` is imported only here, when a function is called.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from gnnak.errors import FileFormatError
from gnnak.optional import missing_package
from gnnak.training.records.folder import CARD, CONFIG, WEIGHTS


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
