"""The options of the paper's network: the section `model` of a config file."""

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
    """Which rooted subgraphs to extract; every node is the root of one subgraph.

    `num_hops` is used only if `kind` is "egonets"; `length`, `repeats`, `p` and `q` are
    used only if `kind` is "walks".
    """

    kind: Literal["egonets", "walks"] = "egonets"
    """Either "egonets", the nodes within `num_hops` hops of the root, or "walks", the
    nodes that `repeats` random walks from the root visit."""
    num_hops: int = 3
    """For egonets: the largest distance from the root, k."""
    length: int = 10
    """For walks: the number of steps of each walk."""
    repeats: int = 5
    """For walks: the number of walks from each root."""
    p: float = 1.0
    """For walks: the return parameter of node2vec."""
    q: float = 1.0
    """For walks: the in-out parameter of node2vec."""
    copy_limit: int | None = None
    """The largest number of node copies and edge copies of a batch together (nodes and
    edges, counted in each subgraph). A batch with more is refused. None = as many as
    fit into the free memory of the device."""

    def __post_init__(self) -> None:
        check_choice("model.subgraphs.kind", self.kind, ("egonets", "walks"))

    def build(self) -> Extractor:
        """Build the extractor of rooted subgraphs that these options describe."""
        if self.kind == "egonets":
            return EgoNets(self.num_hops, copy_limit=self.copy_limit)
        walks = (self.length, self.repeats, self.p, self.q)
        return RandomWalks(*walks, copy_limit=self.copy_limit)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(LayerOptions):
    """Options of the paper's network; the defaults are the options for ZINC.

    The network is a sequence of outer layers: GNN-AK layers, each with BatchNorm, ReLU,
    dropout and a residual sum. This class inherits the options of the GNN-AK layers.
    Four of them differ here:

    - `encodings=None` means centroid and subgraph for GNN-AK, and all three encodings
      for GNN-AK+.
    - GNN-AK ignores `hop_channels`, because it does not use distances.
    - `reduce` also sets how the readout pools node states to graph states.
    - `dropout` is also applied in the base GNN, in each outer layer and before the
      head.
    """

    name: str = "gin-ak+"
    """The name of the model, one of `model_names()`; see `build_model`."""
    num_layers: int = 6
    """Number of outer layers (GNN-AK layers with BatchNorm and residual sum), the
    paper's L."""
    base_layers: int = 1
    """Number of convs in the base GNN of each GNN-AK layer, the paper's m."""
    channels: int = 128
    """Width of the node states, the paper's d."""
    subgraphs: SubgraphOptions | Extractor = SubgraphOptions()
    """How rooted subgraphs are extracted: options, or an extractor object."""
    mlp_layers: int = 1
    """Number of blocks (Linear, BatchNorm, ReLU) before the pools of a GNN-AK layer, as
    in `LayerOptions`, but with the default of the published experiments."""
    gate_centroid: bool = True
    """Whether the centroid encoding is multiplied by a gate (learned factors in 0..1),
    as in `LayerOptions`, but with the default of the published experiments."""
    plain_conv: bool = False
    """Whether each layer of the network also runs a conv on the whole graph, and adds
    its output to that of the GNN-AK layer, as in the PATTERN experiments."""
    drop: SubgraphDrop = field(default_factory=SubgraphDrop)
    """How models with the suffix `-s` sample subgraphs in training; other models use
    all subgraphs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("num_layers", self.num_layers, least=1)
        check_count("base_layers", self.base_layers, least=1)
        check_count("channels", self.channels, least=1)

    def layer_options(self, **changes: Any) -> LayerOptions:
        """Return only the options of the GNN-AK layers, with some of them changed.

        Args:
            changes: New values of options, such as `hop_channels=0`.
        """
        names = [field.name for field in fields(LayerOptions)]
        return LayerOptions(**{name: getattr(self, name) for name in names} | changes)

    @property
    def extractor(self) -> Extractor:
        """The extractor of rooted subgraphs that the field `subgraphs` describes."""
        subgraphs = self.subgraphs
        return (
            subgraphs.build() if isinstance(subgraphs, SubgraphOptions) else subgraphs
        )
