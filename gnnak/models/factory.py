"""From names to networks: the only place where a name becomes a module."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from gnnak.errors import OptionError
from gnnak.models.layers import Kernel, OuterLayer
from gnnak.models.network import Network
from gnnak.models.options import ModelOptions
from gnnak.nn import convs
from gnnak.nn.features import Features, make_encoder
from gnnak.nn.mlp import mlp
from gnnak.nn.pna import PNAStarConv
from gnnak.nn.ppgn import PPGN
from gnnak.nn.stack import Stack
from gnnak.nn.uplift import GNNAK
from gnnak.typing import ENCODINGS, check_count


@dataclass(frozen=True)
class _Base:
    """A base GNN by name: how it is made, and whether it reads edge attributes."""

    make: Callable[[int, ModelOptions], nn.Module]
    reads_edges: bool = True


def _pna(channels: int, options: ModelOptions) -> nn.Module:
    if options.degrees is None:
        raise OptionError("model 'pna' needs degrees, the histogram of in-degrees.")
    return convs.pna(channels, torch.tensor(options.degrees))


BASES: dict[str, _Base] = {
    "gin": _Base(lambda width, _: convs.gine(width)),
    "gcn": _Base(lambda width, _: convs.gcn(width), reads_edges=False),
    "sage": _Base(lambda width, _: convs.sage(width), reads_edges=False),
    "gat": _Base(lambda width, _: convs.gat(width)),
    "gatedgcn": _Base(lambda width, _: convs.gatedgcn(width)),
    "pna": _Base(_pna),
    "pna*": _Base(lambda width, _: PNAStarConv(width, edge_channels=width)),
    "ppgn": _Base(lambda width, options: PPGN(width, options.base_layers)),
}
FORMS = ("", "-ak", "-ak+", "-ak-s", "-ak+-s")


def model_names() -> list[str]:
    """All names that `build_model` knows: base GNNs, and their uplifted forms."""
    return [base + form for base in BASES for form in FORMS]


def build_model(
    name: str,
    node_features: Features,
    edge_features: Features | None,
    out_channels: int,
    options: ModelOptions | None = None,
) -> Network:
    """Build the paper's network.

    Args:
        name: A base GNN (`gin`, `gcn`, `sage`, `gat`, `gatedgcn`, `pna`, `pna*`,
            `ppgn`), alone or with `-ak` or `-ak+` behind it; `-s` behind that trains
            with SubgraphDrop.
        node_features: Kind and sizes of the node features; see `describe`.
        edge_features: The same for edges; None = a learned constant. `gcn` and `sage`
            read no edge features: their networks leave them out.
        out_channels: Outputs per graph, or per node.
        options: Everything else.

    >>> from gnnak.nn.features import Categorical
    >>> options = ModelOptions(num_layers=2, channels=16)
    >>> net = build_model("gin-ak+", Categorical((28,)), Categorical((4,)), 1, options)
    >>> len(net.layers)
    2
    """
    base, form = _parse(name)
    options = options or ModelOptions()
    check_count("out_channels", out_channels, least=1)
    if not isinstance(node_features, Features):
        raise OptionError(
            f"node_features is {node_features!r}; give Categorical or Continuous, and "
            "for graphs without features Categorical((1,)) and x = 0 for every node."
        )
    num_layers = options.num_layers
    if base == "ppgn" and not form:
        # Plain PPGN is one outer layer around a PPGN of depth L.
        options, num_layers = replace(options, base_layers=num_layers), 1
    layers = [
        OuterLayer(
            _kernels(base, form, edge_features, options),
            options.channels,
            options.dropout,
        )
        for _ in range(num_layers)
    ]
    width = options.channels
    head = nn.Sequential(nn.Dropout(options.dropout), mlp([width, width, out_channels]))
    return Network(
        make_encoder(node_features, width),
        layers,
        head,
        reduce=None if options.node_task else options.reduce,
        extractor=options.extractor if form else None,
        drop=options.drop if form.endswith("-s") else None,
    )


def check_model_name(name: str) -> None:
    """Raise `OptionError`, naming the nearest known name, unless there is one such."""
    _parse(name)


def _parse(name: str) -> tuple[str, str]:
    """Split a model name into base GNN and form."""
    for form in sorted(FORMS, key=len, reverse=True):
        base = name.removesuffix(form)
        if name.endswith(form) and base in BASES:
            return base, form
    near = difflib.get_close_matches(name, model_names(), n=1)
    hint = f"did you mean {near[0]!r}? Use" if near else "use"
    raise OptionError(
        f"unknown model {name!r}; {hint} one of {', '.join(BASES)}, alone or with -ak, "
        "-ak+, -ak-s or -ak+-s."
    )


def _kernels(
    base: str, form: str, edge_features: Features | None, options: ModelOptions
) -> list[Kernel]:
    def kernel(gnn: nn.Module, edge_width: int) -> Kernel:
        encoder = None
        if BASES[base].reads_edges:
            encoder = make_encoder(edge_features, edge_width)
        return Kernel(gnn, options.channels, encoder)

    kernels, width = [], options.channels
    if form:
        hop_channels = options.hop_channels if form.startswith("-ak+") else 0
        uplifted = _uplifted(base, form, hop_channels, options)
        kernels.append(kernel(uplifted, width + hop_channels))
    if options.plain_conv or not form:
        kernels.append(kernel(BASES[base].make(width, options), width))
    return kernels


def _uplifted(base: str, form: str, hop_channels: int, options: ModelOptions) -> GNNAK:
    width = options.channels + hop_channels
    make = BASES[base].make
    if base == "ppgn":
        gnn = make(width, options)
    else:
        stack = [make(width, options) for _ in range(options.base_layers)]
        gnn = Stack(stack, width, options.dropout)
    encodings = options.encodings
    if encodings is None:
        encodings = ENCODINGS if form.startswith("-ak+") else ("centroid", "subgraph")
    return GNNAK(
        gnn,
        options.channels,
        options.channels,
        hop_channels=hop_channels,
        max_hops=options.extractor.max_hops,
        encodings=encodings,
        reduce=options.reduce,
        fuse=options.fuse,
        departures=replace(options.departures, dropout=options.dropout),
    )
