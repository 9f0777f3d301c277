"""Write and read the file `best.ckpt`: the best weights and the options of a run.

A Lightning checkpoint would not be enough: it lacks the config and the feature sizes of
the data set, without which the network cannot be built.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnnak import __version__
from gnnak.datasets.record import DatasetInfo, Scaling
from gnnak.errors import CheckpointError, OptionError
from gnnak.graphs.readers.files import read_bytes, write_bytes
from gnnak.models.network import Network
from gnnak.nn.features import Categorical, Continuous, Features
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.module import build_network
from gnnak.training.records.seal import sealed, unsealed

FORMAT = "gnnak checkpoint"
"""`Checkpoint.save` writes this text to the file, and `load_checkpoint` raises an error
for files without this text."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The weights of a trained network, with the config and data set of its run."""

    config: RunConfig
    """All options of the run."""
    info: DatasetInfo
    """Task, metric and feature sizes of the data set that the run used."""
    weights: Mapping[str, Tensor]
    """The `state_dict` of the network."""
    scores: Mapping[str, float | None]
    """Scores of the network; the keys are `validation` and `test`. A score is None if
    it is undefined."""
    degrees: tuple[int, ...] | None = None
    """Entry d is the number of nodes of in-degree d in the training graphs; None if
    the base GNN is not `pna`."""
    fingerprint: str | None = None
    """A hash of the data set that the run used; None in checkpoints of older versions.
    """

    def network(self) -> Network:
        """Build the network in evaluation mode and load its weights.

        Raises:
            CheckpointError: If the weights do not fit the model of the config.
        """
        network = build_network(self.config, self.info, self.degrees)
        try:
            network.load_state_dict(dict(self.weights))
        except RuntimeError as error:
            raise CheckpointError(
                f"the weights of the checkpoint do not fit its model "
                f"{self.config.model.name}; load it with the version that wrote it."
            ) from error
        return network.eval()

    def save(self, path: Path) -> None:
        """Write the checkpoint to a file atomically (completely or not at all)."""
        content = {
            "format": FORMAT,
            "version": __version__,
            "config": self.config.to_dict(),
            "info": _plain_info(self.info),
            "weights": dict(self.weights),
            "scores": dict(self.scores),
            "degrees": self.degrees,
            "fingerprint": self.fingerprint,
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_bytes(path, sealed(buffer.getvalue()))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the `best.ckpt` of a run, without executing code in the file.

    Raises:
        CheckpointError: If the file is damaged, was not written by `Checkpoint.save`,
            or was written by a version of `gnnak` with other options.
    """
    content = read_tensors(path)
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint to evaluate; give the best.ckpt of a run."
        )
    try:
        return Checkpoint(
            change(RunConfig(), content["config"]),
            _info(content["info"]),
            dict(content["weights"]),
            dict(content["scores"]),
            content["degrees"] and tuple(content["degrees"]),
            content.get("fingerprint"),
        )
    except KeyError as error:
        raise CheckpointError(
            f"{path} lacks {error}; load it with the version that wrote it."
        ) from error
    except OptionError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path} has another layout than this version reads; train again."
        ) from error


def read_tensors(path: Path) -> dict[str, Any]:
    """Read a file that `torch.save` wrote: a dict of tensors and plain Python values.

    Verifies the checksum at the end of the file, and those inside: `torch.save`
    writes a zip file with a checksum (CRC-32) of every tensor, which `torch.load` does
    not verify.

    Raises:
        CheckpointError: If the file is damaged, or does not contain such a dict.
    """
    whole = read_bytes(path)
    try:
        file = io.BytesIO(unsealed(whole))
        _verify_checksums(file)
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


def _verify_checksums(file: io.BytesIO) -> None:
    """Raise `BadZipFile` if a checksum of a zip file is wrong; rewind the file."""
    with zipfile.ZipFile(file) as archive:
        if (damaged := archive.testzip()) is not None:
            raise zipfile.BadZipFile(damaged)
    file.seek(0)


def _plain_info(info: DatasetInfo) -> dict[str, Any]:
    """Convert a `DatasetInfo` to plain Python values, to write it to a checkpoint."""
    plain = asdict(info)
    for name in ("node_features", "edge_features"):
        plain[name] = _plain_features(getattr(info, name))
    return plain


def _plain_features(features: Features | None) -> list[int] | int | None:
    """Convert a description of features to plain values, to write it to a checkpoint.

    Categorical features become a list with the number of categories of each feature.
    Continuous features become the number of features.
    """
    if features is None:
        return None
    if isinstance(features, Categorical):
        return list(features.sizes)
    return features.channels


def _info(plain: dict[str, Any]) -> DatasetInfo:
    """Convert the output of `_plain_info` back to a `DatasetInfo`."""
    features: dict[str, Features | None] = {}
    for name in ("node_features", "edge_features"):
        value = plain[name]
        if isinstance(value, list):
            features[name] = Categorical(tuple(value))
        else:
            features[name] = None if value is None else Continuous(value)
    names = ("protocols", "targets", "classes", "skipped")
    tuples = {name: tuple(plain.get(name, ())) for name in names}
    scaling = plain.get("scaling")
    if scaling is not None:
        values = (tuple(scaling[key]) for key in ("mean", "deviation"))
        scaling = Scaling(*values)
    return DatasetInfo(**{**plain, **features, **tuples, "scaling": scaling})
