"""Every option of the paper's network, in one record; runs are configured with it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from gnnak.nn.options import LayerOptions
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.walks import RandomWalks
from gnnak.typing import check_choice, check_count


@dataclass(frozen=True)
class SubgraphOptions:
    """Which rooted subgraphs; options of the other kind are not read."""

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
        """Build the extractor."""
        if self.kind == "egonets":
            return EgoNets(self.num_hops)
        return RandomWalks(self.length, self.repeats, self.p, self.q)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(LayerOptions):
    """Options of the paper's network; the defaults are those of ZINC.

    The options of its GNN-AK layers come from `LayerOptions`. `encodings=None` selects
    the encodings that define GNN-AK and GNN-AK+; GNN-AK has no distances, whatever
    `hop_channels` is; `reduce` is the pool of the readout, too; `dropout` is also
    applied in the base GNN, after each outer layer and before the head.
    """

    name: str = "gin-ak+"
    """The base GNN and its form; see `build_model`."""
    num_layers: int = 6
    """Number of outer layers, the paper's L."""
    base_layers: int = 1
    """Number of convs of the base GNN inside one outer layer, m."""
    channels: int = 128
    """Width of the node states, d."""
    subgraphs: SubgraphOptions | Extractor = SubgraphOptions()
    """The rooted subgraphs: options to build an extractor, or an extractor."""
    mlp_layers: int = 1
    """As in `LayerOptions`; the published experiments have at least one."""
    gate_centroid: bool = True
    """As in `LayerOptions`; the published experiments have this gate."""
    plain_conv: bool = False
    """Whether each outer layer adds a plain conv on the whole graph (PATTERN)."""
    drop: SubgraphDrop = field(default_factory=SubgraphDrop)
    """SubgraphDrop of the forms with the suffix `-s`; other forms use all subgraphs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("num_layers", self.num_layers, least=1)
        check_count("base_layers", self.base_layers, least=1)
        check_count("channels", self.channels, least=1)

    def layer_options(self, **changes: Any) -> LayerOptions:
        """Return the options of the GNN-AK layers, some with other values."""
        names = [field.name for field in fields(LayerOptions)]
        return LayerOptions(**{name: getattr(self, name) for name in names} | changes)

    @property
    def extractor(self) -> Extractor:
        """The extractor of the rooted subgraphs."""
        subgraphs = self.subgraphs
        return (
            subgraphs.build() if isinstance(subgraphs, SubgraphOptions) else subgraphs
        )
