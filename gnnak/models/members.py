"""The family of subgraph GNNs: how each member is built, and its options."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from torch import nn

from gnnak.errors import OptionError
from gnnak.models.bases import Base, Degrees, base_gnn
from gnnak.models.network import Network
from gnnak.models.options import FamilyOptions, ModelOptions, SubgraphKind
from gnnak.nn.family import (
    KHopLayer,
    L2FGNNLayer,
    SSWLLayer,
    SSWLPlusLayer,
    SubgraphGNN,
    ds_gnn,
    dss_gnn,
    ego_gnn,
    id_fast_gnn,
    id_gnn,
    khop_gnn,
    l2fgnn,
    nested_gnn,
    sswl_gnn,
    sun_gnn,
)
from gnnak.nn.family.gnn import Conv, PairEncoder
from gnnak.nn.features import Features, make_encoder
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import WithEncodings
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.whole import WholeGraphs
from gnnak.typing import PAIRS, PairEncoding, Reduce


@dataclass(frozen=True)
class Parts:
    """The parts from which `Member.build` builds a subgraph GNN."""

    options: ModelOptions
    conv: Callable[[], nn.Module]
    """Builds a conv of the base GNN, with new weights and its own edge encoder."""
    edge_encoder: Callable[[], nn.Module]
    start: PairEncoder
    extractor: Extractor

    @property
    def width(self) -> int:
        return self.options.channels

    def reduce(self, published: Reduce) -> Reduce:
        """Return the option `reduce` or, if None, the paper's choice, `published`."""
        return self.options.family.reduce or published

    def convs(self) -> list[nn.Module]:
        return [self.conv() for _ in range(self.options.num_layers)]

    def pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        return list(zip(self.convs(), self.convs(), strict=True))


def _khop(parts: Parts) -> SubgraphGNN:
    hops, count = parts.extractor.max_hops, parts.options.num_layers
    if hops < 1:
        raise OptionError(
            f"khop reads the neighbours of the root, but in {parts.extractor} the root "
            "has none; use egonets of at least 1 hop, or whole graphs."
        )
    return khop_gnn([KHopLayer(parts.width, hops) for _ in range(count)], parts.width)


def _sun(parts: Parts) -> SubgraphGNN:
    inner, outer = parts.pairs(), parts.pairs()
    convs = [(*one, *two) for one, two in zip(inner, outer, strict=True)]
    return sun_gnn(parts.start, convs, parts.width, parts.reduce("mean"))


def _sswl(parts: Parts, layer: type[SSWLLayer] = SSWLLayer) -> SubgraphGNN:
    width, whole = parts.width, isinstance(parts.extractor, WholeGraphs)
    layers = [layer(*pair, width, whole) for pair in parts.pairs()]
    order = parts.options.family.order
    return sswl_gnn(parts.start, layers, width, parts.reduce("sum"), order)


def _l2fgnn(parts: Parts) -> SubgraphGNN:
    width, whole = parts.width, isinstance(parts.extractor, WholeGraphs)
    norm, context = parts.options.family.norm, parts.options.family.context

    def layer() -> L2FGNNLayer:
        encoders = parts.edge_encoder(), parts.edge_encoder()
        return L2FGNNLayer(width, encoders, whole, norm, context)

    layers = [layer() for _ in range(parts.options.num_layers)]
    return l2fgnn(parts.start, layers, width, parts.reduce("sum"), norm)


@dataclass(frozen=True)
class Member:
    """One of the subgraph GNNs: how it is built, and the options of its paper."""

    build: Callable[[Parts], SubgraphGNN]
    """Builds the member, without the encoder of node features and the head."""
    pairs: tuple[PairEncoding, ...] = ()
    """Encodings of (root, node) that are added to the input; see `PairEncoder`."""
    reduce: Reduce = "mean"
    """How node states are pooled over a graph."""
    kind: SubgraphKind = "egonets"
    num_hops: int | None = None
    """The radius of the egonets. If None, the option `num_hops` sets it."""
    takes_pairs: bool = True
    """Whether the options `pairs`, `max_distance` and `num_steps` have an effect."""
    extra: tuple[str, ...] = ()
    """The options in `EXTRA` that the member uses."""
    takes_whole: bool = False
    """Whether the base GNN may be a whole GNN, such as PPGN, instead of a conv."""
    only: tuple[str, ...] | None = None
    """The base GNNs that the member can use. If None, it can use any base GNN."""


MEMBERS: dict[str, Member] = {
    "khop": Member(_khop, reduce="sum", takes_pairs=False, only=("gin",)),
    "ego": Member(
        lambda it: ego_gnn(it.convs(), it.width), num_hops=1, takes_pairs=False
    ),
    "id": Member(
        lambda it: id_gnn(it.start, it.pairs(), it.width),
        reduce="sum",
        takes_whole=True,
    ),
    "id-fast": Member(
        lambda it: id_fast_gnn(it.convs(), it.width),
        reduce="sum",
        num_hops=0,
        takes_pairs=False,
    ),
    "nested": Member(
        lambda it: nested_gnn(it.start, it.convs(), it.width, it.reduce("mean")),
        ("distance", "resistance"),
        takes_whole=True,
    ),
    "ds": Member(
        lambda it: ds_gnn(it.start, it.convs(), it.width, it.reduce("sum")),
        ("mark",),
        takes_whole=True,
    ),
    "dss": Member(
        lambda it: dss_gnn(it.start, it.pairs(), it.width, it.reduce("mean")), ("mark",)
    ),
    "sun": Member(_sun, ("mark",)),
    "sswl": Member(_sswl, ("distance",), kind="whole", extra=("order",)),
    "sswl+": Member(
        lambda it: _sswl(it, SSWLPlusLayer),
        ("distance",),
        kind="whole",
        extra=("order",),
    ),
    "l2fgnn": Member(
        _l2fgnn, ("distance",), kind="whole", extra=("norm", "context"), only=("gin",)
    ),
}
"""The members of the family, by the first part of their names."""


EXTRA = ("order", "norm", "context")
"""The options of `FamilyOptions` that only a few members use."""
NEEDS: dict[str, tuple[PairEncoding, ...]] = {
    "max_distance": ("distance", "distance-counts"),
    "num_steps": ("rrwp",),
    "pair_dropout": PAIRS,
}
"""Maps an option to the encodings of (root, node) that the option applies to."""


def check_family_options(
    model: str, member: str | None, options: FamilyOptions
) -> None:
    """Raise `OptionError` if a model ignores an option that differs from its default.

    `member` is None if the model is a base GNN, GNN-AK or GNN-AK+.
    """
    for field in fields(options):
        name, value = field.name, getattr(options, field.name)
        if value == field.default:
            continue
        readers = [key for key, each in MEMBERS.items() if reads(each, name)]
        if member not in readers:
            *others, last = readers
            names = f"{', '.join(others)} or {last}" if others else last
            raise OptionError(
                f"model.family.{name} is {value!r}, but {model} ignores this option; "
                f"leave it out, or use a model whose name begins with {names}."
            )
        pairs = MEMBERS[member].pairs if options.pairs is None else options.pairs
        needed = NEEDS.get(name, pairs)
        if needed and not set(needed) & set(pairs):
            raise OptionError(
                f"model.family.{name} is {value!r}, but the input of {model} has no "
                f"encoding {' or '.join(map(repr, needed))}; leave the option out, or "
                "add the encoding to model.family.pairs."
            )


def reads(member: Member, option: str) -> bool:
    """Return whether a member uses an option of `FamilyOptions`."""
    if option in EXTRA:
        return option in member.extra
    return option == "reduce" or member.takes_pairs


def family_network(
    name: str,
    base: Base,
    node_features: Features,
    edge_features: Features | None,
    out_channels: int,
    options: ModelOptions,
    node_task: bool,
    degrees: Degrees,
) -> Network:
    """Build the subgraph GNN `name`, such as "sswl+", on `base`; see `build_model`."""
    member, family, width = MEMBERS[name], options.family, options.channels

    def edge_encoder() -> nn.Module:
        return make_encoder(edge_features, width, rows="edges")

    def conv() -> Conv:
        encoder = edge_encoder() if base.reads_edges else None
        gnn = base_gnn(base, width, options, degrees)
        return Conv(gnn, width, encoder, reads_edges=base.reads_edges)

    pairs = member.pairs if family.pairs is None else family.pairs
    sizes = family.max_distance, family.num_steps
    start = PairEncoder(pairs, width, *sizes, family.pair_dropout)
    extractor = options.extractor_for(member.kind)
    if member.num_hops is not None and isinstance(extractor, EgoNets):
        extractor = replace(extractor, num_hops=member.num_hops)
    gnn = member.build(Parts(options, conv, edge_encoder, start, extractor))
    head = nn.Sequential(
        nn.Dropout(options.dropout),
        nn.Linear(gnn.out_channels, 2 * width),
        nn.ReLU(),
        nn.Linear(2 * width, out_channels),
    )
    reduce = None if node_task else family.reduce or member.reduce
    encoder = make_encoder(node_features, width)
    if gnn.encodings:
        extractor = WithEncodings(extractor, gnn.encodings)
    return Network(encoder, [gnn], head, reduce, extractor)
