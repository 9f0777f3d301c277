"""Write and read pretrained folders: a network and its model card, in open formats."""

import hashlib
import json
import math
import platform
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gnnak import __version__
from gnnak.datasets.describe import describe_features
from gnnak.datasets.own.molecules import find_featurizer
from gnnak.datasets.own.options import OwnData
from gnnak.errors import CheckpointError, FileFormatError, GnnakError
from gnnak.graphs.readers.files import make_folder, read_bytes, write_bytes
from gnnak.training.config.experiment import (
    DEFAULTS,
    ONE_GRAPH,
    Experiment,
    experiment_names,
    load_experiment,
)
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.checkpoint import Checkpoint, check_layout, checkpoint_from

FLAGS = {"targets": "target", "labels": "targets"}
"""Maps fields of `OwnData` to options of `gnnak train` that have another name."""


def train_command(config: RunConfig, one_graph: bool = False) -> str | None:
    """Return the `gnnak train` command of a config; None if the data were a list."""
    data, own = config.data, config.data.own
    if own.path is not None:
        words = [Path(own.path).name, *_own_words(own)]
        start = change(RunConfig(), ONE_GRAPH if one_graph else DEFAULTS)
    elif data.name in experiment_names():
        words = [data.name, *_own_words(OwnData(graphs=own.graphs))]
        words += [] if data.target is None else ["--target", data.target]
        start = load_experiment(data.name).config
        if data.protocol != start.data.protocol:
            words += ["--protocol", data.protocol]
    else:
        return None
    words += ["--model", config.model.name, "--seed", str(config.train.seed)]
    words += [] if data.fold is None else ["--fold", str(data.fold)]
    named = {"model.name": config.model.name, "train.seed": config.train.seed}
    start = replace(change(start, named), data=data)
    for setting in Experiment(data.name, start).settings(config):
        words += ["--set", setting]
    return shlex.join(["gnnak", "train", *words])


def _own_words(own: OwnData) -> list[str]:
    words = []
    for name in (field.name for field in fields(own)):
        flag = f"--{FLAGS.get(name, name).replace('_', '-')}"
        value: Any = None if name in ("path", "skip_bad") else getattr(own, name)
        if name in ("labels", "validation", "test") and value is not None:
            value = Path(value).name
        for each in value if isinstance(value, tuple) else (value,):
            words += [] if each is None else [flag, str(each)]
    return [*words, "--skip-bad"] if own.skip_bad else words


PACKAGES = ("torch", "torch_geometric", "numpy")
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)
"""Reads `card.md`, the template of model cards, from the folder of this module."""


def model_card(checkpoint: Checkpoint, name: str, intro: str = "") -> str:
    info, config = checkpoint.info, checkpoint.config
    return TEMPLATES.get_template("card.md").render(
        checkpoint=checkpoint,
        info=info,
        model=config.model.name,
        name=name,
        intro=intro,
        outputs=info.classes or info.targets,
        node_features=describe_features(info.node_features),
        edge_features=describe_features(info.edge_features) or "none",
        takes_smiles=find_featurizer(info) is not None,
        size=sum(weight.numel() for weight in checkpoint.weights.values()),
        command=train_command(config, info.one_graph),
        gnnak=__version__,
        versions={package: version(package) for package in PACKAGES},
        python=platform.python_version(),
    )


FORMAT = "gnnak pretrained"
"""The entry `format` of `config.json`, by which gnnak recognises its folders."""
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
LARGEST_CONFIG = 16 << 20
"""Largest size, in bytes, of `config.json`."""


def is_folder(path: Path) -> bool:
    return any((path / name).is_file() for name in (CONFIG, WEIGHTS))


def save_folder(
    checkpoint: Checkpoint, folder: Path, name: str | None = None, intro: str = ""
) -> None:
    """Write a trained network to a folder; replace an older network there.

    The folder names training files without their paths, and lists no skipped rows.
    `name` stands in the model card's example. If a README.md or config.json is there
    that is not ours, the folder is refused.
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
    """Read a folder that `save_folder` wrote, without executing code in its files."""
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
    names = [name for name in (CARD, CONFIG) if (folder / name).exists()]
    with suppress(GnnakError):
        if _read_config(folder / CONFIG).get("format") == FORMAT:
            return
    if names:
        raise FileFormatError(
            f"the folder {folder} has another {names[0]}; give a new folder."
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
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_folders(config: RunConfig) -> RunConfig:
    own = config.data.own
    short: dict[str, Any] = {}
    for name in ("path", "labels", "validation", "test"):
        path = getattr(own, name)
        short[name] = None if path is None else Path(path).name
    return replace(config, data=replace(config.data, own=replace(own, **short)))
