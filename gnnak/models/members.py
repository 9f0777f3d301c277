"""The family of subgraph GNNs: how each member is built, and its published defaults."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from gnnak.errors import OptionError
from gnnak.models.options import ModelOptions, SubgraphKind
from gnnak.nn.family import (
    KHopLayer,
    SSWLLayer,
    SSWLPlusLayer,
    SubgraphGNN,
    ds_gnn,
    dss_gnn,
    ego_gnn,
    id_fast_gnn,
    id_gnn,
    khop_gnn,
    nested_gnn,
    sswl_gnn,
    sun_gnn,
)
from gnnak.nn.pairs import PairEncoder
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.whole import WholeGraphs
from gnnak.typing import PairEncoding, Reduce


@dataclass(frozen=True)
class Parts:
    """What the functions that build a member need."""

    options: ModelOptions
    """The options of the network."""
    conv: Callable[[], nn.Module]
    """Builds a conv of the base GNN, with new weights and its own edge encoder."""
    start: PairEncoder
    """Computes the initial states from node states and encodings of (root, node)."""
    extractor: Extractor
    """Extracts the rooted subgraphs."""

    @property
    def width(self) -> int:
        """Width of the states."""
        return self.options.channels

    def convs(self) -> list[nn.Module]:
        """Build one conv per layer."""
        return [self.conv() for _ in range(self.options.num_layers)]

    def pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """Build two convs per layer."""
        return list(zip(self.convs(), self.convs(), strict=True))


def _nested(parts: Parts) -> SubgraphGNN:
    reduce = parts.options.family.reduce or "mean"
    return nested_gnn(parts.start, parts.convs(), parts.width, reduce)


def _ds(parts: Parts) -> SubgraphGNN:
    reduce = parts.options.family.reduce or "sum"
    return ds_gnn(parts.start, parts.convs(), parts.width, reduce)


def _dss(parts: Parts) -> SubgraphGNN:
    reduce = parts.options.family.reduce or "mean"
    return dss_gnn(parts.start, parts.pairs(), parts.width, reduce)


def _sun(parts: Parts) -> SubgraphGNN:
    reduce = parts.options.family.reduce or "mean"
    inner, outer = parts.pairs(), parts.pairs()
    convs = [(*one, *two) for one, two in zip(inner, outer, strict=True)]
    return sun_gnn(parts.start, convs, parts.width, reduce)


def _sswl(parts: Parts, layer: type[SSWLLayer] = SSWLLayer) -> SubgraphGNN:
    family, width = parts.options.family, parts.width
    whole = isinstance(parts.extractor, WholeGraphs)
    layers = [layer(*pair, width, whole) for pair in parts.pairs()]
    return sswl_gnn(parts.start, layers, width, family.reduce or "sum", family.order)


def _sswl_plus(parts: Parts) -> SubgraphGNN:
    return _sswl(parts, SSWLPlusLayer)


def _id(parts: Parts) -> SubgraphGNN:
    return id_gnn(parts.start, parts.pairs(), parts.width)


def _id_fast(parts: Parts) -> SubgraphGNN:
    return id_fast_gnn(parts.convs(), parts.width)


def _khop(parts: Parts) -> SubgraphGNN:
    hops, count = parts.extractor.max_hops, parts.options.num_layers
    if hops < 1:
        raise OptionError(
            f"khop reads the neighbours of the root, but in {parts.extractor} the root "
            "has none; use egonets of at least 1 hop, or whole graphs."
        )
    layers = [KHopLayer(parts.width, hops) for _ in range(count)]
    return khop_gnn(layers, parts.width)


def _ego(parts: Parts) -> SubgraphGNN:
    return ego_gnn(parts.convs(), parts.width)


@dataclass(frozen=True)
class Member:
    """How to build one member of the family, and its published defaults."""

    build: Callable[[Parts], SubgraphGNN]
    """Builds the member, without the encoder of node features and without the head."""
    pairs: tuple[PairEncoding, ...] = ()
    """The encodings of (root, node) that are added to the input; see `PairEncoder`."""
    reduce: Reduce = "mean"
    """How node states are pooled over a graph."""
    kind: SubgraphKind = "egonets"
    """The kind of the rooted subgraphs."""
    num_hops: int | None = None
    """The radius of the egonets; None = the option `num_hops`."""
    takes_pairs: bool = True
    """Whether the options `pairs`, `max_distance` and `num_steps` have an effect."""
    takes_order: bool = False
    """Whether the option `order` has an effect."""
    takes_whole: bool = False
    """Whether the base GNN may be a whole GNN, such as PPGN, which must know which
    nodes are in one graph."""
    only: tuple[str, ...] | None = None
    """The base GNNs that the member can use; None = any."""


MEMBERS: dict[str, Member] = {
    "khop": Member(_khop, reduce="sum", takes_pairs=False, only=("gin",)),
    "ego": Member(_ego, num_hops=1, takes_pairs=False),
    "id": Member(_id, reduce="sum", takes_whole=True),
    "id-fast": Member(_id_fast, reduce="sum", num_hops=0, takes_pairs=False),
    "nested": Member(_nested, ("distance", "resistance"), takes_whole=True),
    "ds": Member(_ds, ("mark",), takes_whole=True),
    "dss": Member(_dss, ("mark",)),
    "sun": Member(_sun, ("mark",)),
    "sswl": Member(_sswl, ("distance",), kind="whole", takes_order=True),
    "sswl+": Member(_sswl_plus, ("distance",), kind="whole", takes_order=True),
}
"""The members of the family, by the first part of their names."""
