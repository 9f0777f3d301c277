"""Every option of the paper's network, in one record."""

from dataclasses import dataclass, field

from gnnak.errors import OptionError
from gnnak.nn.departures import PUBLISHED, Departures
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor
from gnnak.typing import (
    Encoding,
    FuseMode,
    Reduce,
    check_choice,
    check_count,
    check_encodings,
    check_share,
)


@dataclass(frozen=True)
class ModelOptions:
    """Every option of the paper's network beyond its name; defaults are ZINC's."""

    num_layers: int = 6
    """Outer layers, the paper's L."""
    base_layers: int = 1
    """Convs of the base GNN inside one outer layer, m."""
    channels: int = 128
    """Width of the node states, d."""
    hop_channels: int = 16
    """Width of the D2C encoding, h; GNN-AK has none, whatever stands here."""
    extractor: Extractor = field(default_factory=lambda: EgoNets(num_hops=3))
    """What makes the rooted subgraphs."""
    encodings: tuple[Encoding, ...] | None = None
    """The encodings fused; None = those that define GNN-AK and GNN-AK+."""
    reduce: Reduce = "sum"
    """Pool of the subgraph and context encodings and of the readout."""
    fuse: FuseMode = "concat"
    """How encodings are fused."""
    dropout: float = 0.0
    """Dropout in the base GNN, after each outer layer and before the head."""
    departures: Departures = PUBLISHED
    """What the published runs add; its dropout is the one above, so leave it 0."""
    plain_conv: bool = False
    """Whether each outer layer adds a plain conv on the whole graph (PATTERN)."""
    node_task: bool = False
    """Whether there is an output per node instead of per graph."""
    drop: SubgraphDrop = field(default_factory=SubgraphDrop)
    """Which subgraphs the `-s` forms train on; the others have none dropped."""
    degrees: tuple[int, ...] | None = None
    """For `pna`: how many training nodes have each in-degree, [max + 1]."""

    def __post_init__(self) -> None:
        check_count("num_layers", self.num_layers, least=1)
        check_count("base_layers", self.base_layers, least=1)
        check_count("channels", self.channels, least=1)
        check_count("hop_channels", self.hop_channels)
        check_choice("reduce", self.reduce, ("sum", "mean"))
        check_choice("fuse", self.fuse, ("concat", "sum"))
        check_share("dropout", self.dropout)
        if self.encodings is not None:
            check_encodings(self.encodings)
        if self.degrees is not None and not isinstance(self.degrees, tuple):
            raise OptionError(
                f"degrees is a {type(self.degrees).__name__}; give a tuple of counts, "
                "tuple(degrees.tolist()) of a tensor."
            )
        if self.departures.dropout not in (0, self.dropout):
            raise OptionError(
                f"departures has dropout {self.departures.dropout} and the model "
                f"{self.dropout}; set the dropout of the model alone."
            )
