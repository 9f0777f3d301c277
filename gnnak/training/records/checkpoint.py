"""Checkpoints: the weights that count, with all that is needed to use them again."""

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnnak import __version__
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import CheckpointError, OptionError
from gnnak.graphs.readers.files import read_bytes, write_bytes
from gnnak.models.network import Network
from gnnak.nn.features import Categorical, Continuous, Features
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.module import build_network

FORMAT = "gnnak checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trained network and what it was trained for."""

    config: RunConfig
    """The run."""
    info: DatasetInfo
    """What was asked of its data."""
    weights: Mapping[str, Tensor]
    """The network's state."""
    scores: Mapping[str, float]
    """What it scored, by part."""
    degrees: tuple[int, ...] | None = None
    """How many training nodes had each in-degree, for `pna`."""

    def network(self) -> Network:
        """The network, in evaluation mode.

        Raises:
            CheckpointError: If the weights are not those of the config's model.
        """
        network = build_network(self.config, self.info, self.degrees)
        try:
            network.load_state_dict(dict(self.weights))
        except RuntimeError as error:
            raise CheckpointError(
                f"these weights are not those of {self.config.model.name} as the "
                "checkpoint describes it; it was written by another version."
            ) from error
        return network.eval()

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        content = {
            "format": FORMAT,
            "version": __version__,
            "config": self.config.to_dict(),
            "info": _plain_info(self.info),
            "weights": dict(self.weights),
            "scores": dict(self.scores),
            "degrees": self.degrees,
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_bytes(path, buffer.getvalue())


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; nothing in the file is ever executed.

    Raises:
        CheckpointError: If it is none, or a damaged one.
    """
    content = read_tensors(path)
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is no checkpoint to evaluate; give the best.ckpt of a run."
        )
    try:
        return Checkpoint(
            change(RunConfig(), content["config"]),
            _info(content["info"]),
            dict(content["weights"]),
            dict(content["scores"]),
            content["degrees"] and tuple(content["degrees"]),
        )
    except KeyError as error:
        raise CheckpointError(
            f"{path} lacks {error}; it was written by another version."
        ) from error
    except OptionError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is laid out in another way than this version writes; train again."
        ) from error


def read_tensors(path: Path) -> dict[str, Any]:
    """The dict that a file of `torch.save` holds: tensors and plain values alone.

    Raises:
        CheckpointError: If the file is damaged, or holds anything else.
    """
    file = io.BytesIO(read_bytes(path))
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make PyTorch raise anything
        raise CheckpointError(
            f"{path} is damaged or no checkpoint; train again, or give another file."
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is no checkpoint; give the best.ckpt of a run.")
    return content


def _plain_info(info: DatasetInfo) -> dict[str, Any]:
    plain = asdict(info)
    for name in ("node_features", "edge_features"):
        plain[name] = _plain_features(getattr(info, name))
    return plain


def _plain_features(features: Features | None) -> list[int] | int | None:
    """Sizes of categories as a list, a number of columns as a number."""
    if features is None:
        return None
    if isinstance(features, Categorical):
        return list(features.sizes)
    return features.channels


def _info(plain: dict[str, Any]) -> DatasetInfo:
    features: dict[str, Features | None] = {}
    for name in ("node_features", "edge_features"):
        value = plain[name]
        if isinstance(value, list):
            features[name] = Categorical(tuple(value))
        else:
            features[name] = None if value is None else Continuous(value)
    protocols = tuple(plain["protocols"])
    return DatasetInfo(**{**plain, **features, "protocols": protocols})
