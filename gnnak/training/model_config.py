"""Which network a run trains: the part of its config that is about the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gnnak.models.factory import check_model_name
from gnnak.models.options import ModelOptions
from gnnak.nn.departures import Departures
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.walks import RandomWalks
from gnnak.typing import Encoding, FuseMode, Reduce, check_choice


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
    """The encodings fused; None = those that define the form. Like the rooted
    subgraphs, a plain GNN has none, whatever stands here."""
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
