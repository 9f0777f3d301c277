"""Read the signature of a GNN, and reject modules that cannot be a base GNN.

A base GNN is the GNN that a GNN-AK layer runs on rooted subgraphs.
"""

import inspect

from torch import nn

from gnnak.errors import OptionError
from gnnak.nn.calling.roles import (
    OTHER_CONVS,
    OTHER_GRAPHS,
    OTHER_MODULES,
    role_of,
)
from gnnak.wording import described

EDGE_ARGUMENTS = ("edge_attr", "edge_weight")
"""Names of the arguments that take edge attributes or edge weights in PyG convs."""
GRAPH_ARGUMENTS = ("edge_index", "adj_t", "adj")
"""Names of the argument that takes the edges of the graph."""
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""The values of `inspect.Parameter.kind` for `*args` and `**kwargs`."""


def argument_names(module: nn.Module) -> tuple[str, ...]:
    """Return the argument names of `module.forward`; see `arguments_of`."""
    return tuple(argument.name for argument in arguments_of(module))


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


def states_argument(gnn: nn.Module) -> str:
    """Return the name of the argument that takes the node states: the first one."""
    return next((a.name for a in arguments_of(gnn) if a.kind not in VARIADIC), "x")


def graph_argument(gnn: nn.Module) -> str | None:
    """Return the name of the argument that takes the edges.

    This is `edge_index`, `adj_t` or `adj`; without any of them, the second argument,
    unless its name says that it holds something else. None if no argument takes edges.
    """
    arguments = arguments_of(gnn)
    names = [a.name for a in arguments if a.kind not in VARIADIC]
    found = [name for name in names if name in GRAPH_ARGUMENTS]
    if found:
        return found[0]
    if len(names) < 2:
        return "edge_index" if len(arguments) > len(names) else None
    other = names[1] in ("batch", "mask") or role_of(names[1]) is not None
    return None if other else names[1]


def keywords(gnn: nn.Module) -> tuple[str, str] | None:
    """Return the names of the arguments for states and edges; None if they come first.

    A GNN with the arguments (x, pos, edge_index) gets both by name; a GNN with the
    arguments (x, edge_index, ...) gets them by position.
    """
    graph = graph_argument(gnn)
    if graph is None or graph not in argument_names(gnn)[2:]:
        return None
    return states_argument(gnn), graph


def further_arguments(gnn: nn.Module) -> dict[str, bool]:
    """Return the arguments of a GNN besides states, edges, `batch` and edge attributes.

    Returns:
        The names of these arguments, as keys. The value is True if the argument is
        required, and False if it has a default value.
    """
    passed = (states_argument(gnn), graph_argument(gnn), *EDGE_ARGUMENTS, "batch")
    return {
        argument.name: argument.default is argument.empty
        for argument in arguments_of(gnn)
        if argument.kind not in VARIADIC and argument.name not in passed
    }


def needs_both_edge_arguments(gnn: nn.Module) -> bool:
    """Return whether neither `edge_attr` nor `edge_weight` has a default value."""
    required = [a.name for a in arguments_of(gnn) if a.default is a.empty]
    return all(name in required for name in EDGE_ARGUMENTS)


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
            f"{what} is {described(value)}; give a built PyTorch module, such as "
            "torch_geometric.nn.GCNConv(8, 8)."
        )


def check_callable(gnn: object) -> None:
    """Raise `OptionError` if `gnn` cannot be a base GNN; do not run `gnn`.

    The error is raised if `gnn` is not a module, contains a conv with `cached=True`, or
    does not work on one homogeneous graph that it is given.
    """
    check_module("the base GNN", gnn)
    assert isinstance(gnn, nn.Module)
    for part in gnn.modules():
        if getattr(part, "cached", False) is True:
            raise OptionError(
                f"{type(part).__name__} has cached=True and would use the first graph "
                "it sees for all later inputs; build it with cached=False."
            )
    reason = refusal(gnn)
    if reason is not None:
        raise OptionError(f"{type(gnn).__name__} cannot be uplifted: {reason}")


def refusal(gnn: nn.Module) -> str | None:
    """Return why rooted subgraphs cannot be taken of a GNN's input; None if they can.

    The class and the names of the arguments tell.
    """
    if type(gnn).__name__ in OTHER_CONVS:
        return OTHER_CONVS[type(gnn).__name__]
    names = argument_names(gnn)
    for argument in names:
        for ending, reason in OTHER_GRAPHS.items():
            if argument.endswith(ending) and not _has_default(gnn, argument):
                return f"it takes {argument}; {reason}"
    graph = graph_argument(gnn)
    if graph is None:
        return (
            f"it takes no edge_index ({', '.join(names)}) but builds its own graph, so "
            "there is no graph to take rooted subgraphs of; leave it out with skip=."
        )
    if graph == states_argument(gnn):
        return (
            f"it takes no node states ({', '.join(names)}), so that there is nothing "
            "to copy to rooted subgraphs; leave it out with skip=."
        )
    return None


def module_refusal(model: nn.Module) -> str | None:
    """Return why a model without convs cannot be uplifted; None if this is unknown.

    The reason is that of the first PyG module inside that passes messages in its own
    way; see `OTHER_MODULES`.
    """
    for part in model.modules():
        name, home = type(part).__name__, type(part).__module__
        for start, reason in OTHER_MODULES.items():
            if name.startswith(start) and home.startswith("torch_geometric."):
                return f"{name} cannot be uplifted: {reason}"
    return None


def _has_default(gnn: nn.Module, name: str) -> bool:
    """Return whether an argument of `gnn.forward` has a default value."""
    return any(a.name == name and a.default is not a.empty for a in arguments_of(gnn))


def arguments_of(gnn: nn.Module) -> list[inspect.Parameter]:
    """Return the parameters of `gnn.forward`.

    A PyG `Sequential` is built with a string that names its arguments, such as
    "x, edge_index"; for such a module, return the parameters in that string. For an
    uplifted conv, return those of the conv inside.
    """
    named = getattr(getattr(gnn, "signature", None), "param_dict", None)
    if named is not None:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [inspect.Parameter(name, kind) for name in named]
    called_like = getattr(gnn, "called_like", None)
    if isinstance(called_like, nn.Module):
        return arguments_of(called_like)
    return list(inspect.signature(gnn.forward).parameters.values())
