"""Write and read `best.ckpt`: weights, options and feature sizes of a run."""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import Tensor

from gnnak import __version__
from gnnak.datasets.record import METRICS, DatasetInfo, Scaling
from gnnak.errors import CheckpointError, OptionError
from gnnak.graphs.readers.files import read_bytes, write_bytes
from gnnak.models.network import Network
from gnnak.nn.features import Categorical, Continuous, Features
from gnnak.training.config.options import change, converted, shown
from gnnak.training.config.run_config import RunConfig
from gnnak.training.module import build_network
from gnnak.typing import check_choice, check_count

TAG = b"\ngnnak sha256 "
"""The bytes between the content of a file and its checksum."""
LENGTH = len(TAG) + hashlib.sha256().digest_size
"""Number of bytes of `TAG` and the checksum together."""


def sealed(content: bytes) -> bytes:
    """Append a checksum: `torch.load` misses damage to the directory of a zip file."""
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
    """The weights of a trained network, with the config and data set of its run."""

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
        """Return whether `weights` are too few or too small for the model's options."""
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
