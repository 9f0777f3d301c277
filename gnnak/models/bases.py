"""The base GNNs that models are built from, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from gnnak.errors import OptionError
from gnnak.models.options import ModelOptions
from gnnak.nn.base import convs as base_convs
from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.base.ppgn import PPGN
from gnnak.nn.base.stack import Stack
from gnnak.wording import kind_of

Degrees = tuple[int, ...] | None
"""Histogram of in-degrees in the training set: the number of nodes with in-degree 0,
1, 2 and so on. Only `pna` needs it; None for all other base GNNs."""


@dataclass(frozen=True)
class Base:
    """How to build one of the base GNNs, such as GIN, and which inputs it reads."""

    make: Callable[[int, ModelOptions, Degrees], nn.Module]
    """Builds the GNN; takes the width of the node states, the options of the network
    and the histogram of in-degrees."""
    reads_edges: bool = True
    """Whether the GNN reads edge attributes; if not, edge features are ignored."""
    needs_degrees: bool = False
    """Whether `make` needs the histogram of in-degrees; if not, None may be passed."""
    has_depth: bool = False
    """Whether `make` builds a whole GNN with `base_layers` layers. If not, `make`
    builds a single conv, and `base_layers` such convs are stacked."""


def _pna(channels: int, _: ModelOptions, degrees: Degrees) -> nn.Module:
    """Build PNA; raise `OptionError` if the histogram of in-degrees is missing."""
    if degrees is None:
        raise OptionError(
            "model 'pna' needs degrees, the histogram of in-degrees; give a tuple of "
            "counts."
        )
    if not isinstance(degrees, tuple):
        raise OptionError(
            f"degrees is {kind_of(degrees)}; give a tuple of counts, "
            "tuple(degrees.tolist()) of a tensor."
        )
    return base_convs.pna(channels, torch.tensor(degrees))


BASES: dict[str, Base] = {
    "gin": Base(lambda width, *_: base_convs.gine(width)),
    "gcn": Base(lambda width, *_: base_convs.gcn(width), reads_edges=False),
    "sage": Base(lambda width, *_: base_convs.sage(width), reads_edges=False),
    "gat": Base(lambda width, *_: base_convs.gat(width)),
    "gatedgcn": Base(lambda width, *_: base_convs.gatedgcn(width)),
    "pna": Base(_pna, needs_degrees=True),
    "pna*": Base(lambda width, *_: PNAStarConv(width, edge_channels=width)),
    "ppgn": Base(
        lambda width, options, _: PPGN(width, options.base_layers, options.channels),
        has_depth=True,
    ),
}
"""The base GNNs that `build_model` knows, by name."""


def base_gnn(
    base: Base, width: int, options: ModelOptions, degrees: Degrees
) -> nn.Module:
    """Build a base GNN with `base_layers` layers.

    Args:
        base: The base GNN.
        width: Width of the node states, in and out.
        options: The options of the network.
        degrees: The histogram of in-degrees, for `pna`.

    Returns:
        A whole GNN, or a single conv, or a stack of convs if `base_layers` is not 1.
    """
    if base.has_depth or options.base_layers == 1:
        return base.make(width, options, degrees)
    convs = [base.make(width, options, degrees) for _ in range(options.base_layers)]
    return Stack(convs, width, options.dropout)
