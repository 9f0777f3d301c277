"""Read the signature of a GNN, and reject modules that cannot be a base GNN.

A base GNN is the GNN that a GNN-AK layer runs on rooted subgraphs.
"""

import inspect

from torch import nn

from gnnak.errors import OptionError

EDGE_ARGUMENTS = ("edge_attr", "edge_weight")
"""Names of the arguments that take edge attributes or edge weights in PyG convs."""
SUPPORTED_ARGUMENTS = ("x", "edge_index", *EDGE_ARGUMENTS, "batch")
"""Names of all arguments that gnnak may pass to a GNN."""
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""The values of `inspect.Parameter.kind` for `*args` and `**kwargs`."""


def argument_names(module: nn.Module) -> tuple[str, ...]:
    """Return the argument names of `module.forward`.

    A PyG `Sequential` is built with a string that names its arguments, such as
    "x, edge_index"; for such a module, return the names in that string.
    """
    described = getattr(getattr(module, "signature", None), "param_dict", None)
    if described is not None:
        return tuple(described)
    return tuple(inspect.signature(module.forward).parameters)


def edge_arguments(gnn: nn.Module) -> dict[str, bool]:
    """Return which of the arguments `edge_attr` and `edge_weight` the GNN accepts.

    A GNN with `**kwargs` accepts both.

    Returns:
        The names of the accepted arguments, as keys. The value is True if the GNN's
        signature has this argument, and False if only `**kwargs` accepts it.
    """
    names = argument_names(gnn)
    kinds = [argument.kind for argument in arguments_of(gnn)]
    has_kwargs = inspect.Parameter.VAR_KEYWORD in kinds
    return {
        name: name in names for name in EDGE_ARGUMENTS if name in names or has_kwargs
    }


def unsupported_arguments(gnn: nn.Module, required: bool) -> list[str]:
    """Return the names of the arguments of `gnn.forward` that gnnak never passes.

    Args:
        gnn: The GNN.
        required: If True, return only arguments without a default value.
    """
    arguments = [a for a in arguments_of(gnn) if a.kind not in VARIADIC]
    names = [argument.name for argument in arguments]
    states_and_edges = 1 if "edge_index" in names else 2
    return [
        argument.name
        for argument in arguments[states_and_edges:]
        if argument.name not in SUPPORTED_ARGUMENTS
        and not (required and argument.default is not argument.empty)
    ]


def check_module(what: str, value: object) -> None:
    """Raise `OptionError` unless `value` is an instance of `nn.Module`.

    Args:
        what: Description of the value for the error message, such as "the base GNN".
        value: The value to check.

    >>> check_module("the base GNN", nn.Linear)
    Traceback (most recent call last):
    gnnak.errors.OptionError: the base GNN Linear is a class; build it first: \
Linear(...).
    """
    if isinstance(value, type):
        name = value.__name__
        raise OptionError(f"{what} {name} is a class; build it first: {name}(...).")
    if not isinstance(value, nn.Module):
        raise OptionError(
            f"{what} is {value!r}; give a built PyTorch module, such as "
            "torch_geometric.nn.GCNConv(8, 8)."
        )


def check_callable(gnn: object) -> None:
    """Raise `OptionError` if `gnn` cannot be a base GNN; do not run `gnn`.

    The error is raised if `gnn` is not a module, contains a conv with `cached=True`, or
    requires arguments that gnnak never passes.
    """
    check_module("the base GNN", gnn)
    assert isinstance(gnn, nn.Module)
    for part in gnn.modules():
        if getattr(part, "cached", False) is True:
            raise OptionError(
                f"{type(part).__name__} has cached=True and would use the first graph "
                "it sees for all later inputs; build it with cached=False."
            )
    needed = unsupported_arguments(gnn, required=True)
    if needed:
        raise OptionError(
            f"{type(gnn).__name__} needs {', '.join(needed)} in addition to x and "
            "edge_index; a base GNN is called as gnn(x, edge_index[, edge_attr or "
            "edge_weight][, batch])."
        )


def arguments_of(gnn: nn.Module) -> list[inspect.Parameter]:
    """Return the parameters of `gnn.forward`.

    For a PyG `Sequential`, return the parameters named in the string it was built with.
    """
    if hasattr(getattr(gnn, "signature", None), "param_dict"):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [inspect.Parameter(name, kind) for name in argument_names(gnn)]
    return list(inspect.signature(gnn.forward).parameters.values())
