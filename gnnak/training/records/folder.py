"""A pretrained folder: a trained network in files that other programs can read.

- `model.safetensors`: the weights, in a format that cannot contain code.
- `config.json`: everything else (options, data set, scores), and two checksums.
- `README.md`: the model card.

The Hugging Face hub expects these names.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gnnak.errors import CheckpointError, FileFormatError, GnnakError
from gnnak.graphs.readers.files import make_folder, read_bytes, write_bytes
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.checkpoint import (
    Checkpoint,
    check_layout,
    checkpoint_from,
)
from gnnak.training.records.model_card import model_card

FORMAT = "gnnak pretrained"
"""Entry of `config.json` that tells that the folder is one of gnnak's."""
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
LARGEST_CONFIG = 16 << 20
"""Largest size, in bytes, of `config.json`."""


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder with one of the files of a trained network."""
    return any((path / name).is_file() for name in (CONFIG, WEIGHTS))


def save_folder(
    checkpoint: Checkpoint, folder: Path, name: str | None = None, intro: str = ""
) -> None:
    """Write a trained network to a folder; an older network there is replaced.

    The paths of the training data are stored without their folders, and rows of the
    data that were left out are not stored.

    Args:
        checkpoint: The network.
        folder: The folder; it is created if it does not exist.
        name: What the model card tells the reader to load; None = name of the folder.
        intro: A paragraph for the model card.

    Raises:
        FileFormatError: If the folder has other files of these names, such as the
            README.md of a project, or cannot be written.
    """
    make_folder(folder)
    _check_replaceable(folder)
    checkpoint = replace(
        checkpoint,
        config=_without_folders(checkpoint.config),
        info=replace(checkpoint.info, skipped=()),
    )
    # Each tensor is copied: safetensors refuses tensors that share memory.
    tensors = {key: w.detach().cpu().clone() for key, w in checkpoint.weights.items()}
    weights = save({k: w.contiguous() for k, w in tensors.items()}, {"format": "pt"})
    plain = {"format": FORMAT, **checkpoint.to_plain()}
    plain["scores"] = {
        part: None if score is None or not math.isfinite(score) else score
        for part, score in checkpoint.scores.items()
    }
    plain["weights"] = {"file": WEIGHTS, "sha256": hashlib.sha256(weights).hexdigest()}
    plain["sha256"] = _digest(plain)
    card = model_card(checkpoint, name or folder.resolve().name, intro)
    write_bytes(folder / WEIGHTS, weights)
    write_bytes(folder / CONFIG, (json.dumps(plain, indent=2) + "\n").encode())
    write_bytes(folder / CARD, card.encode())


def load_folder(folder: Path) -> Checkpoint:
    """Read a folder that `save_folder` wrote, without executing code in its files.

    Raises:
        FileFormatError: If a file is missing or cannot be read.
        CheckpointError: If a file is damaged, or was written by another program or by
            a version of gnnak with other options.
    """
    path = folder / CONFIG
    content = _read_config(path)
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} was not written by gnnak; give a folder of save_pretrained."
        )
    check_layout(content, path)
    stored = content.pop("sha256", None)
    if stored != _digest(content):
        raise CheckpointError(
            f"{path} is damaged or was changed: its checksum is wrong; copy the folder "
            "again, or write it again with save_pretrained."
        )
    weights = _read_weights(folder / WEIGHTS, content.get("weights"))
    return checkpoint_from(content | {"weights": weights}, path)


def _check_replaceable(folder: Path) -> None:
    """Raise `FileFormatError` if a folder has files that gnnak has not written."""
    for name in (CARD, CONFIG):
        if not (folder / name).exists():
            continue
        try:
            is_ours = _read_config(folder / CONFIG).get("format") == FORMAT
        except GnnakError:
            is_ours = False
        if not is_ours:
            raise FileFormatError(
                f"the folder {folder} has another {name}; give a new folder."
            )


def _read_config(path: Path) -> dict[str, Any]:
    text = read_bytes(path, at_most=LARGEST_CONFIG)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is damaged: it is not JSON; copy the folder again."
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{path} was not written by gnnak; give a folder of save_pretrained."
        )
    return content


def _read_weights(path: Path, wanted: object) -> dict[str, Tensor]:
    """Read the weights and verify their checksum."""
    content = read_bytes(path)
    sha256 = wanted.get("sha256") if isinstance(wanted, Mapping) else None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise CheckpointError(
            f"{path} is damaged, or belongs to another {CONFIG}: its checksum is "
            "wrong; copy the folder again."
        )
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{path} is not a safetensors file; write it with save_pretrained."
        ) from error


def _digest(content: Mapping[str, Any]) -> str:
    """Return a hash of JSON values that does not depend on order and white space."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_folders(config: RunConfig) -> RunConfig:
    """Return the options with the names of the user's files, without their folders."""
    own = config.data.own
    names = ("path", "labels", "validation", "test")
    paths = {name: getattr(own, name) for name in names}
    short: dict[str, Any] = {
        name: None if path is None else Path(path).name for name, path in paths.items()
    }
    return replace(config, data=replace(config.data, own=replace(own, **short)))
