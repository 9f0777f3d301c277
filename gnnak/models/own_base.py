"""Base GNNs of the user, named `package.module:Class`.

A name in a checkpoint or a config never imports a module: importing runs code. The
user, or the command line with the user's `--model`, imports the module before.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from torch import nn

from gnnak.errors import OptionError

OWN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""The form of such a name."""


def is_own_name(name: str) -> bool:
    """Return whether a name has the form `package.module:Class`.

    >>> is_own_name("torch_geometric.nn:SAGEConv"), is_own_name("gin")
    (True, False)
    """
    return OWN_NAME.fullmatch(name) is not None


def module_of(name: str) -> str:
    """Return the module in a name `package.module:Class`."""
    return name.partition(":")[0]


def find_class(name: str) -> type[nn.Module]:
    """Return the class that a name `package.module:Class` names.

    Raises:
        OptionError: If the module has not been imported, or has no such class, or the
            class is not a PyTorch module.
    """
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
    """Build a base GNN of the user that maps states of a width to the same width.

    The class is called as `Class(width, width)` if it has the arguments `in_channels`
    and `out_channels`, else as `Class(width)`. If the class has the argument
    `edge_dim`, this argument is the width, too.

    Args:
        name: `package.module:Class`.
        width: Width of the node states and of the edge states.

    Raises:
        OptionError: If the class cannot be built like this.
    """
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
    """Return whether the class takes edge attributes in its forward pass."""
    return "edge_attr" in inspect.signature(find_class(name).forward).parameters
