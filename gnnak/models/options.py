"""The options of the paper's network; they are the section `model` of a config."""

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
    """Which rooted subgraphs to extract; options of the other kind are ignored."""

    kind: Literal["egonets", "walks"] = "egonets"
    """k-hop egonets, or the nodes visited by several random walks from the root."""
    num_hops: int = 3
    """Egonets: the radius, k."""
    length: int = 10
    """Walks: the number of steps of a walk."""
    repeats: int = 5
    """Walks: the number of walks from each root."""
    p: float = 1.0
    """Walks: the return parameter of node2vec."""
    q: float = 1.0
    """Walks: the in-out parameter of node2vec."""

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

    Inherits the options of the GNN-AK layers, with four differences. `encodings=None`
    means centroid and subgraph for GNN-AK, and all three for GNN-AK+. GNN-AK ignores
    `hop_channels`: it has no distances. `reduce` is also how the readout pools. And
    `dropout` is also applied in the base GNN, after each outer layer and before the
    head.
    """

    name: str = "gin-ak+"
    """The name of the model; see `build_model`."""
    num_layers: int = 6
    """Number of outer layers, the paper's L."""
    base_layers: int = 1
    """Number of convs of the base GNN inside one outer layer, m."""
    channels: int = 128
    """Width of the node states, d."""
    subgraphs: SubgraphOptions | Extractor = SubgraphOptions()
    """How rooted subgraphs are extracted: options, or an extractor."""
    mlp_layers: int = 1
    """See `LayerOptions`; the published experiments use at least one."""
    gate_centroid: bool = True
    """See `LayerOptions`; the published experiments use this gate."""
    plain_conv: bool = False
    """Whether each outer layer adds a plain conv on the whole graph, as in the
    PATTERN experiments."""
    drop: SubgraphDrop = field(default_factory=SubgraphDrop)
    """How models with the suffix `-s` sample subgraphs; other models use all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("num_layers", self.num_layers, least=1)
        check_count("base_layers", self.base_layers, least=1)
        check_count("channels", self.channels, least=1)

    def layer_options(self, **changes: Any) -> LayerOptions:
        """Return the options of the GNN-AK layers, with the given ones changed."""
        names = [field.name for field in fields(LayerOptions)]
        return LayerOptions(**{name: getattr(self, name) for name in names} | changes)

    @property
    def extractor(self) -> Extractor:
        """The extractor of rooted subgraphs, built if `subgraphs` are options."""
        subgraphs = self.subgraphs
        return (
            subgraphs.build() if isinstance(subgraphs, SubgraphOptions) else subgraphs
        )
