"""The base GNNs of models: the named ones of gnnak, and classes that users write."""

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gnnak.errors import OptionError, kind_of
from gnnak.models.options import ModelOptions
from gnnak.nn.base import convs as base_convs
from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.base.ppgn import PPGN
from gnnak.nn.base.stack import Stack

OWN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""Matches the name of a user's own base GNN, `package.module:Class`."""


def is_own_name(name: str) -> bool:
    """Return whether a name has the form `package.module:Class`."""
    return OWN_NAME.fullmatch(name) is not None


def module_of(name: str) -> str:
    return name.partition(":")[0]


def find_class(name: str) -> type[nn.Module]:
    """Return the class `package.module:Class` of an already imported module."""
    module, _, word = name.partition(":")
    if module not in sys.modules:
        raise OptionError(
            f"the base GNN {name} needs the module {module}; import it before (import "
            f"{module}), or on the command line give --import {module}."
        )
    found = getattr(sys.modules[module], word, None)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise OptionError(
            f"{name} is not a class of PyTorch modules; give package.module:Class."
        )
    return found


def make_own(name: str, width: int) -> nn.Module:
    """Build a user's base GNN by calling its class with the width of the states."""
    kind = find_class(name)
    known = inspect.signature(kind).parameters
    positional = [width, width] if "out_channels" in known else [width]
    keywords: dict[str, Any] = {"edge_dim": width} if "edge_dim" in known else {}
    try:
        return kind(*positional, **keywords)
    except Exception as error:  # the user's constructor may raise anything
        called = ", ".join(map(str, positional))
        raise OptionError(
            f"{name}({called}) failed: {error}; write a class that takes the number of "
            "channels."
        ) from error


def reads_edges(name: str) -> bool:
    return "edge_attr" in inspect.signature(find_class(name).forward).parameters


Degrees = tuple[int, ...] | None
"""Number of nodes with in-degree 0, 1, ... in the training set; only `pna` reads it."""


@dataclass(frozen=True)
class Base:
    """One of the base GNNs, such as GIN: how it is built, and which inputs it reads."""

    make: Callable[[int, ModelOptions, Degrees], nn.Module]
    """Builds the GNN from the width of the states, the options and the degrees."""
    reads_edges: bool = True
    """Whether the GNN reads edge attributes; if not, models ignore edge features."""
    needs_degrees: bool = False
    has_depth: bool = False
    """Whether `make` builds a GNN with `base_layers` layers instead of one conv."""


def _pna(channels: int, _: ModelOptions, degrees: Degrees) -> nn.Module:
    if degrees is None:
        told = "model 'pna' needs degrees, the histogram of in-degrees"
        raise OptionError(f"{told}; give a tuple of counts.")
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


def base_gnn(
    base: Base, width: int, options: ModelOptions, degrees: Degrees
) -> nn.Module:
    if base.has_depth or options.base_layers == 1:
        return base.make(width, options, degrees)
    convs = [base.make(width, options, degrees) for _ in range(options.base_layers)]
    return Stack(convs, width, options.dropout)
