"""The options on which the results of a run depend, as frozen dataclasses."""

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
OptimizerName = Literal["adam", "adamw"]
PER_RUN = ("train.seed", "data.fold")
"""Options that may differ between the runs whose mean is one cell of a table."""
LENGTH = ("train.epochs", "train.step", "train.warm_up")
"""Options, in numbers of epochs, that change together if a run is shortened."""
ADDED = (
    "train.recalibrate",
    "train.schedule",
    "train.patience",
    "train.factor",
    "train.stop_rate",
    "train.warm_up",
    "train.optimizer",
    "train.average",
    "model.subgraphs.copy_limit",
    "model.subgraphs.max_neighbors",
    "model.subgraphs.seed",
    "model.subgraphs.size",
    "model.subgraphs.alpha",
    "model.residual",
    "model.pairs",
    "model.family",
    "model.family.pair_dropout",
    "model.family.norm",
    "model.family.context",
    "train.num_neighbors",
    "model.drop.ties",
    "model.drop.share",
)
"""Options that newer versions added. If such an option has its default value, hashes
leave it out, so that the hashes of old records stay valid."""


@dataclass(frozen=True)
class DataConfig:
    name: str = "zinc"
    target: str | None = None
    """The target to predict if the data set has several; if None, the first target. Of
    QM9, one network can predict several targets, such as "mu,alpha"."""
    protocol: Protocol = "split"
    """How the graphs are split; see `choose_parts`."""
    fold: int | None = None
    """Index of the cross-validation fold; if None, all folds (if any) are run."""
    seed: int = 0
    """Seed for data sets that are generated at random; independent of `train.seed`."""
    own: OwnData = field(default_factory=OwnData)
    """The user's own data; the default means that `name` is a data set of gnnak."""

    def __post_init__(self) -> None:
        check_choice("data.protocol", self.protocol, get_args(Protocol))
        check_seed("data.seed", self.seed)
        if self.fold is not None:
            check_count("data.fold", self.fold)
        if self.target is not None and self.own.path is not None:
            raise OptionError(
                f"data.target is {self.target!r}, but it is for data sets of gnnak; "
                f"give --target {self.target}, or data.own.targets=[{self.target}]."
            )


@dataclass(frozen=True)
class TrainConfig:
    epochs: int = 310
    batch_size: int | None = 128
    """Graphs (or nodes of one graph) per step, over all processes. If None, all."""
    num_neighbors: tuple[int, ...] = ()
    """For one graph: numbers of neighbours to sample at hop 1, 2, ... of each node. If
    empty, the nodes of a batch share one neighbourhood, which has all neighbours."""
    optimizer: OptimizerName = "adam"
    learning_rate: float = 1e-3
    """Learning rate at the start, or after the warm-up."""
    weight_decay: float = 0.0
    """With "adam", an L2 penalty; with "adamw", decoupled from the gradient. It applies
    to all weights, also to biases and norms."""
    warm_up: int = 0
    """Number of epochs in which the learning rate grows linearly, before `schedule`."""
    schedule: RateSchedule = "step"
    """With "step", halve the learning rate every `step` epochs. With "plateau",
    multiply it by `factor` after more than `patience` epochs without a better score.
    With "cosine", lower it to 0 over all epochs after the warm-up."""
    step: int = 50
    patience: int = 20
    factor: float = 0.5
    stop_rate: float | None = None
    """Stop once the learning rate is below this number; if None, never."""
    loss: Loss | None = None
    """If None: L1 (regression), cross entropy (classification) or BCE (multilabel)."""
    clip: float | None = None
    """Largest norm of the gradient, for gradient clipping; if None, no clipping."""
    average: float | None = None
    """Decay per step of the moving average of the weights, which is scored and stored
    in place of the weights; if None, there is no average."""
    early_stop: int | None = None
    """Stop after this many epochs without a better validation score; if None, never."""
    precision: Precision = "32"
    """float32, float64, or automatic mixed precision with bfloat16 or float16."""
    recalibrate: bool = False
    """Whether evaluation uses batch-norm statistics of all training graphs."""
    seed: int = 0
    """Seed of initial weights, order of graphs, dropout and SubgraphDrop."""

    def __post_init__(self) -> None:
        for name in ("epochs", "step", "patience"):
            check_count(f"train.{name}", getattr(self, name), least=1)
        if self.batch_size is not None:
            check_count("train.batch_size", self.batch_size, least=1)
        for count in self.num_neighbors:
            check_count("train.num_neighbors", count, least=1)
        if self.num_neighbors and self.batch_size is None:
            raise OptionError(
                "train.num_neighbors is for mini-batches; add a train.batch_size, such "
                "as 256."
            )
        check_seed("train.seed", self.seed)
        if self.early_stop is not None:
            check_count("train.early_stop", self.early_stop, least=1)
        if self.loss is not None:
            check_choice("train.loss", self.loss, get_args(Loss))
        check_choice("train.precision", self.precision, get_args(Precision))
        check_choice("train.schedule", self.schedule, get_args(RateSchedule))
        check_choice("train.optimizer", self.optimizer, get_args(OptimizerName))
        if check_count("train.warm_up", self.warm_up) >= self.epochs:
            raise OptionError(
                f"train.warm_up is {self.warm_up}, but train.epochs is {self.epochs}; "
                "give a warm-up of fewer epochs."
            )
        if not 0 < self.factor < 1:
            raise OptionError(
                f"train.factor is {self.factor}; give a number between 0 and 1, such "
                "as 0.5."
            )
        if self.average is not None and not 0 < self.average < 1:
            raise OptionError(
                f"train.average is {self.average}; give a decay between 0 and 1, such "
                "as 0.999."
            )
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
    """All options of one run; the defaults are the options for ZINC-12K."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        parse_name(self.model.name)

    def check_family(self) -> None:
        """Raise `OptionError` if `model.family` sets options that the model ignores."""
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
        """Return a hash of all options except seed, fold and `also_without`."""
        return self._digest(PER_RUN + also_without)

    def _digest(self, without: tuple[str, ...]) -> str:
        options, usual = self.to_dict(), _defaults_of_added()
        form = parse_name(self.model.name)
        for key in ADDED:
            part, name = _part_and_name(options, key)
            unused = key.startswith("model.drop.") and not form.sampled
            if unused or part.get(name) == usual[key]:
                part.pop(name, None)
        for key in without:
            part, name = _part_and_name(options, key)
            part.pop(name, None)
        subgraphs = options["model"]["subgraphs"]
        if "kind" in subgraphs:
            # Naming the default kind of subgraphs must not change the hash.
            kind = subgraphs["kind"] or form.kind
            subgraphs["kind"] = kind
        text = json.dumps(options, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _defaults_of_added() -> dict[str, Any]:
    defaults = RunConfig().to_dict()
    places = {key: _part_and_name(defaults, key) for key in ADDED}
    return {key: part[name] for key, (part, name) in places.items()}


def _part_and_name(options: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    *path, name = key.split(".")
    for part in path:
        options = options.get(part, {})
    return options, name
