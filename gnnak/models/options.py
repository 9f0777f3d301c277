"""The options of the paper's network: the section `model` of a config file."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from gnnak.nn.copies import REDUCES
from gnnak.nn.options import LayerOptions
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor, check_extractor
from gnnak.subgraphs.pagerank import PageRankNeighbors
from gnnak.subgraphs.walks import RandomWalks
from gnnak.subgraphs.whole import MaskedEgoNets, NodeDeletion, WholeGraphs
from gnnak.typing import (
    PAIRS,
    Norm,
    PairEncoding,
    ReadoutOrder,
    Reduce,
    Residual,
    check_choice,
    check_count,
    check_flag,
    check_share,
)

SubgraphKind = Literal[
    "egonets", "walks", "pagerank", "whole", "deletion", "masked-egonets"
]

READ_BY_KIND: dict[SubgraphKind, tuple[str, ...]] = {
    "egonets": ("num_hops", "max_neighbors", "seed"),
    "walks": ("length", "repeats", "p", "q"),
    "pagerank": ("size", "alpha"),
    "masked-egonets": ("num_hops",),
}
"""The fields of `SubgraphOptions` that only some kinds of subgraphs use."""


@dataclass(frozen=True)
class SubgraphOptions:
    """Which rooted subgraphs to extract; every node is the root of one subgraph.

    Text such as "For walks:" says which kinds use an option. All use `copy_limit`.
    """

    kind: SubgraphKind | None = None
    """"egonets": the nodes within `num_hops` hops of the root. "walks": the nodes that
    `repeats` random walks from the root visit. "pagerank": the `size` nodes with the
    largest personalised PageRank of the root. "whole": the whole graph. "deletion":
    the graph without the edges of the root. "masked-egonets": the graph without the
    edges that are not in the egonet. If None, this is the kind that the model was
    published with."""
    num_hops: int = 3
    """For egonets and masked egonets: the largest distance from the root, k."""
    length: int = 10
    """For walks: the number of steps of each walk."""
    repeats: int = 5
    """For walks: the number of walks from each root."""
    p: float = 1.0
    """For walks: the return parameter of node2vec."""
    q: float = 1.0
    """For walks: the in-out parameter of node2vec."""
    copy_limit: int | None = None
    """Largest number of node copies plus edge copies in a batch; a larger batch raises
    an error. If None, the free memory of the device is the limit."""
    max_neighbors: int | None = None
    """For egonets: the largest number of nodes sampled at each hop; None keeps all."""
    seed: int | None = 0
    """For egonets with `max_neighbors`: seed of the sample. If None, each training step
    has a new sample."""
    size: int = 32
    """For PageRank: the largest number of nodes of a subgraph."""
    alpha: float = 0.15
    """For PageRank: the probability that a walk from the root ends in a given step."""

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_choice("model.subgraphs.kind", self.kind, get_args(SubgraphKind))

    def build(self, kind: SubgraphKind = "egonets") -> Extractor:
        """Build the extractor; the argument `kind` is used if `self.kind` is None."""
        kind, limit = self.kind or kind, self.copy_limit
        if kind == "egonets":
            sample = self.max_neighbors, self.seed
            return EgoNets(self.num_hops, *sample, copy_limit=limit)
        if kind == "pagerank":
            return PageRankNeighbors(self.size, self.alpha, copy_limit=limit)
        if kind == "whole":
            return WholeGraphs(copy_limit=limit)
        if kind == "deletion":
            return NodeDeletion(copy_limit=limit)
        if kind == "masked-egonets":
            return MaskedEgoNets(self.num_hops, copy_limit=limit)
        assert kind == "walks", kind
        return RandomWalks(self.length, self.repeats, self.p, self.q, copy_limit=limit)


@dataclass(frozen=True)
class FamilyOptions:
    """Options of the subgraph GNNs other than GNN-AK, such as `sswl+-gin`.

    If the model ignores an option, `build_model` accepts only the option's default.
    """

    pairs: tuple[PairEncoding, ...] | None = None
    """The encodings of pairs (root, node) that are added to the input: "mark" (is the
    node the root?), "distance", "rrwp" (random-walk probabilities), "resistance",
    "distance-counts". If None, these are the encodings that the model was published
    with."""
    max_distance: int = 5
    """For "distance" and "distance-counts": the largest distance that is distinguished.
    """
    num_steps: int = 20
    """For "rrwp": the largest number of steps of a walk."""
    pair_dropout: float = 0.0
    """Dropout probability of the encodings of pairs, in training."""
    reduce: Reduce | None = None
    """How states are pooled in the layers, over subgraphs and over graphs: "sum" or
    "mean". If None, states are pooled as in the paper of the model. A sum is more
    expressive than a mean, since it depends on the number of nodes."""
    order: ReadoutOrder = "VS"
    """For `sswl` and `sswl+`: what the readout pools first. "VS" first pools the node
    copies of each subgraph; "SV" first pools the copies of each node."""
    norm: Norm = "batch"
    """For `l2fgnn`: "batch" means BatchNorms in the layers and in the readout; "none"
    means no norms there, and biases in all of their Linears."""
    context: bool = True
    """For `l2fgnn`: whether layers sum the states of a node over all subgraphs."""

    def __post_init__(self) -> None:
        for name in self.pairs or ():
            check_choice("a pair encoding in model.family.pairs", name, PAIRS)
        check_count("model.family.max_distance", self.max_distance, least=1)
        check_count("model.family.num_steps", self.num_steps, least=1)
        check_share("model.family.pair_dropout", self.pair_dropout)
        if self.reduce is not None:
            check_choice("model.family.reduce", self.reduce, REDUCES)
        check_choice("model.family.order", self.order, get_args(ReadoutOrder))
        check_choice("model.family.norm", self.norm, get_args(Norm))
        check_flag("model.family.context", self.context)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(LayerOptions):
    """Options of the paper's network; the defaults are the options for ZINC.

    The network is a sequence of outer layers: GNN-AK layers, each with BatchNorm, ReLU,
    dropout and a residual sum. This class inherits the options of the GNN-AK layers.
    Four of them differ here:

    - `encodings=None` means centroid and subgraph for GNN-AK, and all three encodings
      for GNN-AK+.
    - GNN-AK ignores `hop_channels`, because it does not use distances. So `pairs` is
      only for GNN-AK+.
    - `reduce` also sets how the readout pools node states to graph states.
    - `dropout` is also applied in the base GNN, in each outer layer and before the
      head.
    """

    name: str = "gin-ak+"
    """The name of the model, one of `model_names()`; see `build_model`."""
    num_layers: int = 6
    """Number of outer layers, the paper's L."""
    base_layers: int = 1
    """Number of convs in the base GNN of each GNN-AK layer, the paper's m."""
    channels: int = 128
    """Width of the node states, the paper's d."""
    subgraphs: SubgraphOptions | Extractor = SubgraphOptions()
    """How rooted subgraphs are extracted: options, or an extractor object."""
    mlp_layers: int = 1
    """As in `LayerOptions`, but with the default of the paper's experiments."""
    gate_centroid: bool = True
    """As in `LayerOptions`, but with the default of the paper's experiments."""
    plain_conv: bool = False
    """Whether each layer also runs a conv on the whole graph, and adds its output to
    that of the GNN-AK layer, as in the PATTERN experiments."""
    residual: Residual = "sum"
    """How a layer adds its input to its output: "sum" adds it at the end; "linear" adds
    a Linear of it before the BatchNorm, as in tuned networks for node classification
    (Luo et al., 2024)."""
    family: FamilyOptions = FamilyOptions()
    """Options of the subgraph GNNs other than GNN-AK, such as `sswl+-gin`. Apart from
    these options, such models use only `num_layers`, `base_layers`, `channels`,
    `subgraphs` and `dropout` (before the head)."""
    drop: SubgraphDrop = field(default_factory=SubgraphDrop)
    """How models with the suffix `-s` sample subgraphs in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("num_layers", self.num_layers, least=1)
        check_count("base_layers", self.base_layers, least=1)
        check_count("channels", self.channels, least=1)
        check_choice("residual", self.residual, get_args(Residual))
        if not isinstance(self.subgraphs, SubgraphOptions):
            check_extractor("subgraphs", self.subgraphs)

    def layer_options(self, **changes: Any) -> LayerOptions:
        """Return the options of the GNN-AK layers, with the given changes."""
        names = [field.name for field in fields(LayerOptions)]
        return LayerOptions(**{name: getattr(self, name) for name in names} | changes)

    @property
    def extractor(self) -> Extractor:
        """The extractor of rooted subgraphs; if no kind is chosen, `EgoNets`."""
        return self.extractor_for("egonets")

    def extractor_for(self, kind: SubgraphKind) -> Extractor:
        """Return the extractor; `kind` is used if `subgraphs` does not name a kind."""
        chosen = self.subgraphs
        return chosen.build(kind) if isinstance(chosen, SubgraphOptions) else chosen
