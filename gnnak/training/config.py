"""What a run is: every option that its figures depend on, in frozen records."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from gnnak.datasets.record import Protocol
from gnnak.errors import OptionError
from gnnak.models.factory import check_model_name
from gnnak.models.options import ModelOptions
from gnnak.nn.departures import Departures
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.walks import RandomWalks
from gnnak.typing import Encoding, FuseMode, Reduce, check_choice, check_count

Loss = Literal["l1", "mse", "cross-entropy", "weighted-cross-entropy", "bce"]
Precision = Literal["32", "64", "bf16", "16"]
PER_RUN = ("train.seed", "data.fold")
"""What differs between the runs whose mean stands in one cell of a table."""


@dataclass(frozen=True)
class DataConfig:
    """Which graphs, and how they are split."""

    name: str = "zinc"
    """The data set."""
    target: str | None = None
    """Which of its targets, for data sets that have several; None = its first."""
    protocol: Protocol = "split"
    """How it is split and scored."""
    fold: int | None = None
    """Which fold, for protocols that have folds."""
    seed: int = 0
    """Fixes the graphs of generated data sets; no matter of `train.seed`."""

    def __post_init__(self) -> None:
        check_choice("data.protocol", self.protocol, get_args(Protocol))
        check_count("data.seed", self.seed)
        if self.fold is not None:
            check_count("data.fold", self.fold)


@dataclass(frozen=True)
class SubgraphsConfig:
    """Which rooted subgraphs; the numbers of the other kind are not read."""

    kind: Literal["egonets", "walks"] = "egonets"
    """k-hop egonets, or unions of random walks."""
    num_hops: int = 3
    """Radius of egonets, k."""
    length: int = 10
    """Steps of a walk."""
    repeats: int = 5
    """Walks from every root."""
    p: float = 1.0
    """node2vec's return parameter."""
    q: float = 1.0
    """node2vec's in-out parameter."""

    def __post_init__(self) -> None:
        check_choice("model.subgraphs.kind", self.kind, ("egonets", "walks"))

    def build(self) -> Extractor:
        """The extractor."""
        if self.kind == "egonets":
            return EgoNets(self.num_hops)
        return RandomWalks(self.length, self.repeats, self.p, self.q)


@dataclass(frozen=True)
class DropConfig:
    """SubgraphDrop, for the `-s` forms."""

    strategy: Literal["random", "farthest", "min-set-cover"] = "farthest"
    """Who stays."""
    min_coverage: int = 3
    """How often every node is covered at least, R."""


@dataclass(frozen=True)
class ModelConfig:
    """The network; see `ModelOptions`, whose fields these are."""

    name: str = "gin-ak+"
    """Base GNN and form."""
    num_layers: int = 6
    """Outer layers, L."""
    base_layers: int = 1
    """Convs of the base GNN inside one outer layer, m."""
    channels: int = 128
    """Width, d."""
    hop_channels: int = 16
    """Width of the distance-to-centroid encoding, h."""
    subgraphs: SubgraphsConfig = SubgraphsConfig()
    """The rooted subgraphs."""
    encodings: tuple[Encoding, ...] | None = None
    """The encodings fused; None = those that define the form."""
    reduce: Reduce = "sum"
    """Pool of encodings and readout."""
    fuse: FuseMode = "concat"
    """How encodings are fused."""
    dropout: float = 0.0
    """Share dropped in the base GNN, after outer layers, and before the head."""
    mlp_layers: int = 1
    """Transforms before pooling and Linears of the fuse."""
    gate_centroid: bool = True
    """Whether the centroid encoding has a gate."""
    plain_conv: bool = False
    """Whether outer layers add a plain conv on the whole graph."""
    drop: DropConfig = DropConfig()
    """SubgraphDrop."""

    def __post_init__(self) -> None:
        check_model_name(self.name)
        self.options()

    def options(self, **more: Any) -> ModelOptions:
        """These options, and `more`, as the factory takes them."""
        return ModelOptions(
            num_layers=self.num_layers,
            base_layers=self.base_layers,
            channels=self.channels,
            hop_channels=self.hop_channels,
            extractor=self.subgraphs.build(),
            encodings=self.encodings,
            reduce=self.reduce,
            fuse=self.fuse,
            dropout=self.dropout,
            departures=Departures(self.mlp_layers, self.gate_centroid),
            plain_conv=self.plain_conv,
            drop=SubgraphDrop(self.drop.strategy, self.drop.min_coverage),
            **more,
        )


@dataclass(frozen=True)
class TrainConfig:
    """How it is trained."""

    epochs: int = 310
    """Passes over the training graphs."""
    batch_size: int = 128
    """Graphs a step, over all processes together."""
    learning_rate: float = 1e-3
    """Adam's, at the start."""
    weight_decay: float = 0.0
    """Adam's."""
    step: int = 50
    """The learning rate is halved every so many epochs."""
    loss: Loss | None = None
    """None = L1 for regression, cross entropy for classes, BCE for yes or no."""
    clip: float | None = None
    """Largest norm of the gradient; None = no bound."""
    early_stop: int | None = None
    """Stop after so many epochs without a better validation score; None = never."""
    precision: Precision = "32"
    """`bf16` and `16` are automatic mixed precision."""
    seed: int = 0
    """Fixes weights, order and whatever is drawn."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "step"):
            check_count(f"train.{name}", getattr(self, name), least=1)
        check_count("train.seed", self.seed)
        if self.early_stop is not None:
            check_count("train.early_stop", self.early_stop, least=1)
        if self.loss is not None:
            check_choice("train.loss", self.loss, get_args(Loss))
        check_choice("train.precision", self.precision, get_args(Precision))
        _check_positive("train.learning_rate", self.learning_rate)
        if self.clip is not None:
            _check_positive("train.clip", self.clip)
        if not self.weight_decay >= 0:
            raise OptionError(
                f"train.weight_decay is {self.weight_decay}; give 0 or more."
            )


@dataclass(frozen=True)
class RunConfig:
    """One run: data, model, training. Defaults are those of ZINC-12K.

    >>> RunConfig().model.subgraphs.num_hops
    3
    >>> RunConfig().cell() == RunConfig(train=TrainConfig(seed=7)).cell()
    True
    """

    data: DataConfig = field(default_factory=DataConfig)
    """The graphs."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """The training."""

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dicts, lists and numbers, as JSON and YAML have them."""
        return json.loads(json.dumps(asdict(self)))

    def hash(self) -> str:
        """Twelve digits that every option has a part in."""
        return self._digest(())

    def cell(self, also_without: tuple[str, ...] = ()) -> str:
        """The same for the options that the runs of one table cell share.

        Args:
            also_without: Further options to leave out, such as `train.epochs`.
        """
        return self._digest(PER_RUN + also_without)

    def _digest(self, without: tuple[str, ...]) -> str:
        options = self.to_dict()
        for key in without:
            room, name = key.split(".")
            del options[room][name]
        text = json.dumps(options, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise OptionError(f"{name} is {value}; give a number greater than 0.")
