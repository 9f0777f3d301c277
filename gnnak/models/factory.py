"""Build networks by name, such as "gin-ak+"; only this module interprets names."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch import nn

from gnnak.errors import OptionError, kind_of
from gnnak.models.bases import BASES, Base, Degrees, is_own_name, make_own, reads_edges
from gnnak.models.members import (
    MEMBERS,
    Member,
    check_family_options,
    family_network,
    reads,
)
from gnnak.models.network import Kernel, Network, OuterLayer
from gnnak.models.options import (
    READ_BY_KIND,
    FamilyOptions,
    ModelOptions,
    SubgraphKind,
    SubgraphOptions,
)
from gnnak.nn.base.stack import Stack
from gnnak.nn.features import Features, make_encoder
from gnnak.nn.mlp import mlp
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.encodings import WithEncodings, structural_encodings
from gnnak.typing import ENCODINGS, check_count, unknown_model

SUFFIXES = ("", "-ak", "-ak+", "-ak-s", "-ak+-s")
"""Suffixes of model names: none, GNN-AK, GNN-AK+, and both with SubgraphDrop."""


@dataclass(frozen=True)
class ModelForm:
    """The parts of a model name such as "gin-ak+", as returned by `parse_name`."""

    base: str
    """The base GNN: a key of `BASES`, or a class as `package.module:Class`."""
    uplifted: bool
    """Whether the base GNN runs on rooted subgraphs (suffix `-ak` or `-ak+`)."""
    distances: bool
    """Whether layers use distances and the context encoding (suffix `-ak+`)."""
    sampled: bool
    """Whether the model is trained with SubgraphDrop (suffix `-s`)."""
    member: str | None = None
    """The subgraph GNN that the name begins with, a key of `MEMBERS`, or None."""

    @property
    def kind(self) -> SubgraphKind:
        return "egonets" if self.member is None else MEMBERS[self.member].kind

    @property
    def needs_degrees(self) -> bool:
        return self.base in BASES and BASES[self.base].needs_degrees

    @property
    def has_node_pairs(self) -> bool:
        """Whether the base GNN computes states of all pairs of nodes, as PPGN does."""
        return self.base in BASES and BASES[self.base].has_depth

    @property
    def unsampled_name(self) -> str:
        """The name of the same model without SubgraphDrop: without the suffix `-s`."""
        if self.member is not None:
            return f"{self.member}-{self.base}"
        suffix = ("-ak+" if self.distances else "-ak") if self.uplifted else ""
        return self.base + suffix


def model_names() -> list[str]:
    """Return the names of all models that `build_model` can build.

    These are the base GNNs with and without suffixes, such as `gin` and `gin-ak+`, and
    other subgraph GNNs with each base GNN that they can use, such as `sswl+-gin`.
    """
    uplifted = [base + suffix for base in BASES for suffix in SUFFIXES]
    family = [
        f"{name}-{base}"
        for name, member in MEMBERS.items()
        for base in BASES
        if _fits(member, base)
    ]
    return uplifted + family


def _fits(member: Member, base: str) -> bool:
    if member.only is not None:
        return base in member.only
    return member.takes_whole or base not in BASES or not BASES[base].has_depth


def parse_name(name: str) -> ModelForm:
    """Split a model's name into its parts; raise `OptionError` if it is unknown."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        base = name.removesuffix(suffix)
        if name.endswith(suffix) and (base in BASES or is_own_name(base)):
            sampled, distances = suffix.endswith("-s"), suffix.startswith("-ak+")
            return ModelForm(base, bool(suffix), distances, sampled)
    for first in sorted(MEMBERS, key=len, reverse=True):
        base = name.removeprefix(f"{first}-")
        if base in BASES or (base != name and is_own_name(base)):
            if not _fits(MEMBERS[first], base):
                usable = [known for known in BASES if _fits(MEMBERS[first], known)]
                raise OptionError(
                    f"the model is {name!r}, but {first} cannot use the base GNN "
                    f"{base}; use {first} with one of: {', '.join(usable)}."
                )
            return ModelForm(base, True, False, False, first)
    raise unknown_model(name, model_names(), BASES, MEMBERS)


def read_options(options: ModelOptions) -> set[str]:
    """Return the names of the options that the model `options.name` reads."""
    form = parse_name(options.name)
    member = None if form.member is None else MEMBERS[form.member]
    found = {"name", "num_layers", "channels", "dropout"}
    if member is not None:
        names = [each.name for each in fields(FamilyOptions)]
        found |= {f"family.{name}" for name in names if reads(member, name)}
    else:
        found |= {"reduce", "residual"}
        if form.uplifted:
            found |= {"encodings", "fuse", "mlp_layers", "plain_conv"}
    if form.distances:
        found |= {"hop_channels", "gate_centroid", "pairs"}
    if form.sampled:
        found |= {f"drop.{each.name}" for each in fields(options.drop)}
    if form.uplifted:
        kind = _kind(options)
        names = ["kind", "copy_limit", *READ_BY_KIND.get(kind, ())]
        if member is not None and member.num_hops is not None and kind == "egonets":
            names.remove("num_hops")
        found |= {"base_layers", *(f"subgraphs.{name}" for name in names)}
    return found


def _kind(options: ModelOptions) -> SubgraphKind:
    assert isinstance(options.subgraphs, SubgraphOptions)
    return options.subgraphs.kind or parse_name(options.name).kind


def check_read(options: ModelOptions, given: Mapping[str, Any]) -> None:
    """Raise `OptionError` for `given` options without effect, except `model.family`."""
    read, form = read_options(options), parse_name(options.name)
    for key, value in given.items():
        section, _, name = key.partition(".")
        if section != "model" or name.startswith("family.") or name in read:
            continue
        model, instead = options.name, "use a model with the suffix -ak or -ak+"
        first, _, last = name.partition(".")
        kinds = [kind for kind, names in READ_BY_KIND.items() if last in names]
        if first == "drop":
            instead = "use a model with the suffix -s"
        elif name == "reduce" or (name == "pairs" and form.member is not None):
            instead = f"set model.family.{name}"
        elif name in ("hop_channels", "gate_centroid", "pairs"):
            instead = "use a model with the suffix -ak+"
        elif first == "subgraphs" and form.uplifted and _kind(options) not in kinds:
            model += f" with subgraphs of kind {_kind(options)}"
            instead = f"add model.subgraphs.kind={kinds[0]}"
        told = f"{key} is {value!r}, but {model} ignores this option"
        raise OptionError(f"{told}; leave it out, or {instead}.")


def normal_name(name: str) -> str:
    """Return the name of a model in lower case; names of classes keep their case."""
    if not isinstance(name, str):
        raise OptionError(
            f"the model is {kind_of(name)}; give a name, such as 'gin-ak+' or "
            "'package.module:Class-ak+', or train a module of your own with "
            "gnnak.uplift and gnnak.TrainingStep."
        )
    return name if ":" in name else name.lower()


def _base(name: str) -> Base:
    if name in BASES:
        return BASES[name]
    return Base(lambda width, *_: make_own(name, width), reads_edges(name))


def build_model(
    name: str,
    node_features: Features,
    edge_features: Features | None,
    out_channels: int,
    options: ModelOptions | None = None,
    node_task: bool = False,
    degrees: Degrees = None,
) -> Network:
    """Build the network with the given name.

    Args:
        name: The name of a base GNN: `gin`, `gcn`, `sage`, `gat`, `gatedgcn`, `pna`,
            `pna*`, `ppgn`, or `package.module:Class` for your own class, whose module
            must be imported before. The suffix `-ak` means GNN-AK, `-ak+` means
            GNN-AK+, and a further suffix `-s` means training with SubgraphDrop. A
            prefix names another subgraph GNN: `khop-`, `ego-`, `id-`, `id-fast-`,
            `nested-`, `ds-`, `dss-`, `sun-`, `sswl-`, `sswl+-` or `l2fgnn-`, as in
            `sswl+-gin`.
        node_features: Whether the node features are categories or real numbers, and
            their sizes, as returned by `describe`.
        edge_features: As `node_features`, for the edges. If None, all edges get the
            same learned vector. `gcn` and `sage` ignore edge features.
        out_channels: Number of outputs per graph, or per node if `node_task`.
        options: All other options; their field `name` is ignored. If None, the defaults
            of `ModelOptions`.
        node_task: Whether to predict for each node instead of for each graph.
        degrees: For `pna`: the histogram of in-degrees in the training set.

    >>> from gnnak.nn.features import Categorical
    >>> options = ModelOptions(num_layers=2, channels=16)
    >>> net = build_model("gin-ak+", Categorical((28,)), Categorical((4,)), 1, options)
    >>> len(net.layers)
    2
    """
    options = ModelOptions() if options is None else options
    if not isinstance(name, str) or not isinstance(options, ModelOptions):
        told = f"name is {name!r} and options is {options!r}; give a text"
        raise OptionError(f"{told} such as gin-ak+, and ModelOptions(...) or None.")
    form = parse_name(name)
    check_count("out_channels", out_channels, least=1)
    if not isinstance(node_features, Features):
        raise OptionError(
            f"node_features is {node_features!r}; give Categorical or Continuous, and "
            "for graphs without features Categorical((1,)) and x = 0 for every node."
        )
    check_family_options(name, form.member, options.family)
    if form.member is not None:
        return family_network(
            form.member,
            _base(form.base),
            node_features,
            edge_features,
            out_channels,
            options,
            node_task,
            degrees,
        )
    num_layers = options.num_layers
    if _base(form.base).has_depth and not form.uplifted:
        # A PPGN on the whole graph with L layers is one `OuterLayer` around a PPGN of
        # depth L, not L outer layers.
        options, num_layers = replace(options, base_layers=num_layers), 1
    width, dropout = options.channels, options.dropout
    layers = [
        OuterLayer(kernels, width, dropout, options.residual)
        for kernels in (
            _kernels(form, edge_features, options, degrees) for _ in range(num_layers)
        )
    ]
    head = mlp([width, width, out_channels], rows="nodes" if node_task else "graphs")
    extractor = options.extractor if form.uplifted else None
    structural = structural_encodings(options.pairs)
    if extractor is not None and structural:
        extractor = WithEncodings(extractor, structural)
    return Network(
        make_encoder(node_features, width),
        layers,
        nn.Sequential(nn.Dropout(dropout), head),
        reduce=None if node_task else options.reduce,
        extractor=extractor,
        drop=options.drop if form.sampled else None,
    )


def _kernels(
    form: ModelForm,
    edge_features: Features | None,
    options: ModelOptions,
    degrees: Degrees,
) -> list[Kernel]:
    """Build the `Kernel`s of an `OuterLayer`; only the first has an edge encoder."""
    base, width = _base(form.base), options.channels
    gnns: list[nn.Module] = []
    edge_width = width
    if form.uplifted:
        layer = _uplifted(form, options, degrees)
        gnns.append(layer)
        edge_width += layer.options.hop_channels
    if options.plain_conv or not form.uplifted:
        gnns.append(base.make(width, options, degrees))
    encoder = None
    if base.reads_edges:
        encoder = make_encoder(edge_features, edge_width, rows="edges")
    first, *others = gnns
    return [Kernel(first, width, encoder), *(Kernel(gnn, width) for gnn in others)]


def _uplifted(form: ModelForm, options: ModelOptions, degrees: Degrees) -> GNNAK:
    hop_channels = options.hop_channels if form.distances else 0
    width = options.channels + hop_channels
    base = _base(form.base)
    if base.has_depth:
        gnn = base.make(width, options, degrees)
    else:
        convs = [base.make(width, options, degrees) for _ in range(options.base_layers)]
        gnn = Stack(convs, width, options.dropout)
    encodings = options.encodings
    if encodings is None:
        encodings = ENCODINGS if form.distances else ("centroid", "subgraph")
    return GNNAK(
        gnn,
        options.channels,
        options.channels,
        max_hops=options.extractor.max_hops,
        options=options.layer_options(hop_channels=hop_channels, encodings=encodings),
    )
