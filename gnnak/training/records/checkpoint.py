"""Write and read trained networks: `best.ckpt` of a run, and pretrained folders."""

import hashlib
import io
import json
import os
import platform
import shlex
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_type_hints

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gnnak import __version__
from gnnak.datasets.describe import describe_features
from gnnak.datasets.own.molecules import find_featurizer
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.record import METRICS, DatasetInfo, Scaling
from gnnak.errors import CheckpointError, FileFormatError, GnnakError, OptionError
from gnnak.graphs.readers.files import make_folder, read_bytes, write_bytes
from gnnak.models.network import Network
from gnnak.nn.features import Categorical, Continuous, Features
from gnnak.training.config.experiment import (
    DEFAULTS,
    ONE_GRAPH,
    Experiment,
    experiment_names,
    load_experiment,
)
from gnnak.training.config.options import change, converted, shown
from gnnak.training.config.run_config import RunConfig
from gnnak.training.module import build_network
from gnnak.typing import check_choice, check_count

TAG = b"\ngnnak sha256 "
"""The bytes between the content of a file and its checksum."""
LENGTH = len(TAG) + hashlib.sha256().digest_size
"""Number of bytes of `TAG` and the checksum together."""


def sealed(content: bytes) -> bytes:
    """Append a checksum, because `torch.load` does not detect all damage to a file."""
    return content + TAG + hashlib.sha256(content).digest()


def unsealed(content: bytes) -> bytes:
    """Remove the checksum, if there is one; raise `ValueError` if it is wrong."""
    inner, seal = content[:-LENGTH], content[-LENGTH:]
    if not seal.startswith(TAG):
        return content
    if sealed(inner) != content:
        raise ValueError("the checksum of the file is wrong")
    return inner


def seal_file(path: Path) -> None:
    seal = sealed(path.read_bytes())[-LENGTH:]
    with path.open("ab") as file:
        file.write(seal)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that names of new files survive a crash."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


FEATURES = ("node_features", "edge_features")


def plain_info(info: DatasetInfo) -> dict[str, Any]:
    """Convert `info` to JSON values. Features become their `sizes` or `channels`."""
    plain = asdict(info)
    for name in FEATURES:
        features = getattr(info, name)
        if isinstance(features, Categorical):
            plain[name] = list(features.sizes)
        else:
            plain[name] = None if features is None else features.channels
    return plain


def info_from_plain(plain: Mapping[str, Any]) -> DatasetInfo:
    """Convert the output of `plain_info` back, and check the type of every value."""
    hints = get_type_hints(DatasetInfo)
    known = {field.name for field in fields(DatasetInfo)}
    if unknown := plain.keys() - known:
        raise OptionError(f"unknown field {shown(sorted(unknown)[0])} of the data set.")
    values: dict[str, Any] = {name: _features(name, plain[name]) for name in FEATURES}
    for name, value in plain.items():
        if name == "scaling":
            values[name] = _scaling(value, plain["num_outputs"])
        elif name not in FEATURES:
            values[name] = converted(name, value, hints[name])
    info = DatasetInfo(**values)
    check_count("num_outputs", info.num_outputs, least=1)
    check_choice("metric", info.metric, tuple(METRICS))
    return info


def _features(name: str, value: Any) -> Features | None:
    if value is None and name == "edge_features":
        return None
    if isinstance(value, list | tuple):
        return Categorical(converted(name, value, tuple[int, ...]))
    return Continuous(converted(name, value, int))


def _scaling(value: Any, targets: int) -> Scaling | None:
    if value is None:
        return None
    numbers = [
        converted(f"scaling.{key}", value[key], tuple[float, ...])
        for key in ("mean", "deviation")
    ]
    if any(len(each) != targets for each in numbers):
        raise OptionError(f"scaling has other numbers than one per target, {targets}.")
    return Scaling(*numbers)


FORMAT = "gnnak checkpoint"
"""The text by which `load_checkpoint` recognises a file of `Checkpoint.save`."""
LAYOUT = 1
"""Number of the newest file layout; this version reads it and all older ones."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The weights of a trained network, and the config and `DatasetInfo` of its run."""

    config: RunConfig
    info: DatasetInfo
    """Task, metric and feature sizes of the data set that the run used."""
    weights: Mapping[str, Tensor]
    """The `state_dict` of the network."""
    scores: Mapping[str, float | None]
    """The scores `validation` and `test`; None if a score is undefined."""
    degrees: tuple[int, ...] | None = None
    """Number of training nodes per in-degree; None unless the base GNN is `pna`."""
    fingerprint: str | None = None
    """A hash of the data set of the run; None in checkpoints of older versions."""

    def network(self) -> Network:
        misfit = CheckpointError(
            f"the weights of the checkpoint do not fit its model "
            f"{self.config.model.name}; load it with the version that wrote it."
        )
        if self._lacks_weights():  # a damaged config could need gigabytes
            raise misfit
        network = build_network(self.config, self.info, self.degrees)
        try:
            network.load_state_dict(dict(self.weights))
        except RuntimeError as error:
            raise misfit from error
        return network.eval()

    def _lacks_weights(self) -> bool:
        model, nodes = self.config.model, self.info.node_features
        widths = [model.channels, self.info.num_outputs]
        widths.append(
            sum(nodes.sizes) if isinstance(nodes, Categorical) else nodes.channels
        )
        sizes = [size for weight in self.weights.values() for size in weight.shape]
        layers = max(model.num_layers, model.base_layers, model.mlp_layers)
        return max(widths) > max(sizes, default=0) or layers > len(self.weights)

    def save(self, path: Path) -> None:
        content = {"format": FORMAT, **self.to_plain(), "weights": dict(self.weights)}
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_bytes(path, sealed(buffer.getvalue()))

    def to_plain(self) -> dict[str, Any]:
        return {
            "layout": LAYOUT,
            "version": __version__,
            "info": plain_info(self.info),
            "config": self.config.to_dict(),
            "scores": dict(self.scores),
            "degrees": None if self.degrees is None else list(self.degrees),
            "fingerprint": self.fingerprint,
        }


def load_checkpoint(path: Path) -> Checkpoint:
    content = read_tensors(path)
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint to evaluate; give the best.ckpt of a run."
        )
    return checkpoint_from(content, path)


def checkpoint_from(content: Mapping[str, Any], path: Path) -> Checkpoint:
    """Build a checkpoint from the output of `to_plain` plus the weights."""
    check_layout(content, path)
    try:
        return Checkpoint(
            change(RunConfig(), content["config"]),
            info_from_plain(content["info"]),
            dict(content["weights"]),
            {
                part: converted(f"the {part} score", score, float | None)
                for part, score in content["scores"].items()
            },
            converted("degrees", content["degrees"], tuple[int, ...] | None),
            converted("fingerprint", content.get("fingerprint"), str | None),
        )
    except KeyError as error:
        reason = f"lacks {error}"
    except OptionError as error:
        reason = f"does not fit this version ({str(error).rstrip('.')})"
    except (TypeError, ValueError, AttributeError):
        reason = "has another layout than this version reads"
    raise CheckpointError(f"{path} {reason}; {_advice(content.get('version'))}")


def check_layout(content: Mapping[str, Any], path: Path) -> None:
    layout = content.get("layout", LAYOUT)
    if not isinstance(layout, int) or layout > LAYOUT:
        raise CheckpointError(
            f"{path} has layout {shown(layout)}, but this version reads layouts up to "
            f"{LAYOUT}; {_advice(content.get('version'))}"
        )


def _advice(version: object) -> str:
    if not isinstance(version, str):
        return "load it with the version of gnnak that wrote it, or train again."
    if version == __version__:
        return "it was changed after it was written; train again."
    return (
        f"it was written by gnnak {shown(version)[1:-1]}, and this is gnnak "
        f"{__version__}: install that version, or train again."
    )


def read_tensors(path: Path) -> dict[str, Any]:
    """Read a dict that `torch.save` wrote, and, unlike `torch.load`, verify it."""
    whole = read_bytes(path)
    try:
        file = io.BytesIO(unsealed(whole))
        with zipfile.ZipFile(file) as archive:
            if (damaged := archive.testzip()) is not None:
                raise zipfile.BadZipFile(damaged)
        file.seek(0)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch raises errors of any type on damaged files
        raise CheckpointError(
            f"{path} is damaged or not a checkpoint; train again, or give another file."
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{path} is not a checkpoint; give the best.ckpt of a run."
        )
    return content


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


FOLDER_FORMAT = "gnnak pretrained"
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

    Training files are stored by name, without their folders; skipped rows are not
    stored. The model card's example loads `name`. If the folder has a README.md or
    config.json that is not from gnnak, `FileFormatError` is raised.
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
    plain = {"format": FOLDER_FORMAT, **checkpoint.to_plain()}
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
    if content.get("format") != FOLDER_FORMAT:
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
        if _read_config(folder / CONFIG).get("format") == FOLDER_FORMAT:
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
