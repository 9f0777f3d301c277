"""The options on which the results of a run depend, as frozen dataclasses."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal, get_args

from gnnak.datasets.own.options import OwnData
from gnnak.datasets.record import Protocol
from gnnak.errors import OptionError
from gnnak.models.factory import parse_name
from gnnak.models.members import check_family_options
from gnnak.models.options import ModelOptions
from gnnak.typing import check_choice, check_count, check_positive, check_seed

Loss = Literal["l1", "mse", "cross-entropy", "weighted-cross-entropy", "bce"]
Precision = Literal["32", "64", "bf16", "16"]
RateSchedule = Literal["step", "plateau", "cosine"]
PER_RUN = ("train.seed", "data.fold")
"""Options that may differ between runs of the same model on the same task. In a table
of results, the mean over such runs is one cell."""
LENGTH = ("train.epochs", "train.step")
"""Options in which a shorter run may differ: it has fewer epochs, and it halves the
learning rate after fewer of them."""
ADDED = (
    "train.recalibrate",
    "train.schedule",
    "train.patience",
    "train.stop_rate",
    "model.subgraphs.copy_limit",
    "model.family",
    "model.drop.ties",
    "model.drop.share",
)
"""Options that were added after records of runs had been written. An option of these
that has its default value is left out of hashes, so that older records keep theirs. So
are those of `model.drop` if the model does not use SubgraphDrop."""


@dataclass(frozen=True)
class DataConfig:
    """Options of the data: which graphs, and how they are split."""

    name: str = "zinc"
    """The name of the data set."""
    target: str | None = None
    """The target to predict, if the data set has several; None = the first target."""
    protocol: Protocol = "split"
    """How the graphs are split into training, validation and test graphs; see
    `choose_parts`."""
    fold: int | None = None
    """Number of the cross-validation fold, from 0; None if `protocol` has no folds.
    `run_experiment` replaces None by each fold in turn."""
    seed: int = 0
    """Seed for data sets that are generated at random; independent of `train.seed`."""
    own: OwnData = field(default_factory=OwnData)
    """The user's own data: files, columns and split. At its default, the data set is
    one of gnnak's, and `to_dict` leaves this option out."""

    def __post_init__(self) -> None:
        check_choice("data.protocol", self.protocol, get_args(Protocol))
        check_seed("data.seed", self.seed)
        if self.fold is not None:
            check_count("data.fold", self.fold)


@dataclass(frozen=True)
class TrainConfig:
    """Options of the training: epochs, optimiser, loss, precision and seed."""

    epochs: int = 310
    """Number of passes over the training graphs."""
    batch_size: int = 128
    """Number of graphs per training step, summed over all processes."""
    learning_rate: float = 1e-3
    """Initial learning rate of Adam."""
    weight_decay: float = 0.0
    """Weight decay of Adam: an L2 penalty, not decoupled as in AdamW."""
    schedule: RateSchedule = "step"
    """How the learning rate falls: "step" halves it after every `step` epochs,
    "plateau" halves it after more than `patience` epochs without a better validation
    score, and "cosine" lowers it to 0 along half a cosine wave."""
    step: int = 50
    """For the schedule "step": the learning rate is halved after every `step`
    epochs."""
    patience: int = 20
    """For the schedule "plateau": the number of epochs without a better validation
    score that are allowed before the learning rate is halved."""
    stop_rate: float | None = None
    """Stop once the learning rate is below this number; None = train all epochs."""
    loss: Loss | None = None
    """The loss; None = L1 for regression, cross entropy for classification, binary
    cross entropy (BCE) for multilabel tasks."""
    clip: float | None = None
    """Largest norm of the gradient, for gradient clipping; None = no clipping."""
    early_stop: int | None = None
    """Stop after this many epochs without a better validation score; None = never."""
    precision: Precision = "32"
    """Floating-point precision: `32` (float32), `64` (float64), or automatic mixed
    precision with `bf16` (bfloat16) or `16` (float16)."""
    recalibrate: bool = False
    """Whether the statistics of batch norms are recomputed from all training graphs
    before each evaluation; False = moving averages over the last training steps."""
    seed: int = 0
    """Seed of all randomness in training: initial weights, order of graphs, dropout
    and the subgraphs that SubgraphDrop samples."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "step", "patience"):
            check_count(f"train.{name}", getattr(self, name), least=1)
        check_seed("train.seed", self.seed)
        if self.early_stop is not None:
            check_count("train.early_stop", self.early_stop, least=1)
        if self.loss is not None:
            check_choice("train.loss", self.loss, get_args(Loss))
        check_choice("train.precision", self.precision, get_args(Precision))
        check_choice("train.schedule", self.schedule, get_args(RateSchedule))
        check_positive("train.learning_rate", self.learning_rate)
        for name in ("clip", "stop_rate"):
            if getattr(self, name) is not None:
                check_positive(f"train.{name}", getattr(self, name))
        if not 0 <= self.weight_decay < math.inf:
            raise OptionError(
                f"train.weight_decay is {self.weight_decay}; give 0 or more, finite."
            )


@dataclass(frozen=True)
class RunConfig:
    """All options of one run; the defaults are the options for ZINC-12K.

    >>> RunConfig().model.subgraphs.num_hops
    3
    >>> RunConfig().cell() == RunConfig(train=TrainConfig(seed=7)).cell()
    True
    """

    data: DataConfig = field(default_factory=DataConfig)
    """Options of the data: which graphs, and how they are split."""
    model: ModelOptions = field(default_factory=ModelOptions)
    """Options of the network: model name, layers, channels, subgraphs."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """Options of the training: epochs, optimiser, loss, precision and seed."""

    def __post_init__(self) -> None:
        parse_name(self.model.name)

    def check_family(self) -> None:
        """Raise `OptionError` if the model ignores an option of `model.family`.

        This is not checked when a config is created, because options are changed one
        after the other, and so that older records can be read.
        """
        name = self.model.name
        check_family_options(name, parse_name(name).member, self.model.family)

    def to_dict(self) -> dict[str, Any]:
        """Return the options as nested dicts of plain values, for JSON and YAML."""
        options = json.loads(json.dumps(asdict(self)))
        if self.data.own == OwnData():
            del options["data"]["own"]
        return options

    def hash(self) -> str:
        """Return a hash of all options (12 hexadecimal digits), to identify the run."""
        return self._digest(())

    def cell(self, also_without: tuple[str, ...] = ()) -> str:
        """Return a hash of all options except the seed and the fold (`PER_RUN`).

        Runs with the same hash are averaged: their mean is one cell of a table of
        results.

        Args:
            also_without: Further options to leave out of the hash, such as
                `train.epochs`.
        """
        return self._digest(PER_RUN + also_without)

    def _digest(self, without: tuple[str, ...]) -> str:
        options, usual = self.to_dict(), _defaults_of_added()
        form = parse_name(self.model.name)
        for key in ADDED:
            part, name = _part_and_name(options, key)
            unused = key.startswith("model.drop.") and not form.sampled
            if unused or part[name] == usual[key]:
                del part[name]
        for key in without:
            part, name = _part_and_name(options, key)
            part.pop(name, None)
        subgraphs = options["model"]["subgraphs"]
        if "kind" in subgraphs:
            # A run that names the published kind of subgraphs is the same run.
            kind = subgraphs["kind"] or form.kind
            subgraphs["kind"] = kind
        text = json.dumps(options, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _defaults_of_added() -> dict[str, Any]:
    """Return the default values of the options in `ADDED`, by name."""
    defaults = RunConfig().to_dict()
    places = {key: _part_and_name(defaults, key) for key in ADDED}
    return {key: part[name] for key, (part, name) in places.items()}


def _part_and_name(options: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """Return the nested dict that contains the option `key`, and its name there."""
    *path, name = key.split(".")
    for part in path:
        options = options[part]
    return options, name
