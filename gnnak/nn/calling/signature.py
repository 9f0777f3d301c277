"""What the signature of a GNN says, and the GNNs it rules out."""

import inspect

from torch import nn

from gnnak.errors import OptionError

EDGE_ARGUMENTS = ("edge_attr", "edge_weight")
HANDED_OVER = ("x", "edge_index", *EDGE_ARGUMENTS, "batch")
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def argument_names(module: nn.Module) -> tuple[str, ...]:
    """The names of the arguments of `module.forward`, those of PyG's Sequential too."""
    described = getattr(getattr(module, "signature", None), "param_dict", None)
    if described is not None:
        return tuple(described)
    return tuple(inspect.signature(module.forward).parameters)


def edge_arguments(gnn: nn.Module) -> dict[str, bool]:
    """The edge arguments that `gnn` may take, and whether its signature names them.

    With `**kwargs` it may take each of `EDGE_ARGUMENTS`: it hands them on.
    """
    names = argument_names(gnn)
    kinds = [argument.kind for argument in _arguments(gnn)]
    hands_on = inspect.Parameter.VAR_KEYWORD in kinds
    return {name: name in names for name in EDGE_ARGUMENTS if name in names or hands_on}


def further_arguments(gnn: nn.Module, required: bool) -> list[str]:
    """The arguments that a base GNN is not handed; the `required` ones, or all."""
    arguments = [a for a in _arguments(gnn) if a.kind not in VARIABLE]
    names = [argument.name for argument in arguments]
    states_and_edges = 1 if "edge_index" in names else 2
    return [
        argument.name
        for argument in arguments[states_and_edges:]
        if argument.name not in HANDED_OVER
        and not (required and argument.default is not argument.empty)
    ]


def check_module(what: str, value: object) -> None:
    """Raise `OptionError` unless `value` is a built module.

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
    """Raise `OptionError` unless `gnn` can be a base GNN, as far as it tells itself."""
    check_module("the base GNN", gnn)
    assert isinstance(gnn, nn.Module)
    for part in gnn.modules():
        if getattr(part, "cached", False) is True:
            raise OptionError(
                f"{type(part).__name__} has cached=True and would keep the first graph "
                "it sees for ever; build it with cached=False."
            )
    needed = further_arguments(gnn, required=True)
    if needed:
        raise OptionError(
            f"{type(gnn).__name__} needs {', '.join(needed)} beside x and edge_index; "
            "a base GNN is called as gnn(x, edge_index[, edge_attr or edge_weight]"
            "[, batch])."
        )


def _arguments(gnn: nn.Module) -> list[inspect.Parameter]:
    """The arguments of `gnn.forward`; those of PyG's Sequential are all required."""
    if hasattr(getattr(gnn, "signature", None), "param_dict"):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [inspect.Parameter(name, kind) for name in argument_names(gnn)]
    return list(inspect.signature(gnn.forward).parameters.values())
