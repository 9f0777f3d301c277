"""Read the signature of a GNN: which arguments it takes, and how wide they are."""

import inspect
from collections.abc import Iterable
from typing import Literal

from torch import nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import MessagePassing

from gnnak.errors import OptionError, described

Role = Literal["node", "edge", "num_nodes"]
"""What an argument holds: a row per node, a row per edge, or the number of nodes."""

NODE_ARGUMENTS = (
    *("x_0", "x0", "h_0", "h0"),
    *("pos", "normal", "coords", "node_type", "node_attr"),
)
"""Names of arguments with one row per node: initial states, positions, node types."""
TYPE_ARGUMENTS = ("edge_type", "node_type")
"""Names of arguments with one category, 0, 1, ..., per edge or node."""
POSITION_ARGUMENTS = ("pos", "normal", "coords")
"""Names of arguments with coordinates of nodes in space."""

OTHER_GRAPHS = {
    "_dict": "it works on heterogeneous graphs, but rooted subgraphs are taken of "
    "homogeneous graphs; convert the graphs with HeteroData.to_homogeneous() and use a "
    "conv with edge types, such as RGCNConv.",
    "hyperedge_index": "it works on hypergraphs, which have no rooted subgraphs here; "
    "leave it out with skip=.",
    "pos_edge_index": "it reads two graphs (positive and negative edges), but rooted "
    "subgraphs are taken of one graph; give both kinds in one edge_index and use a "
    "conv with edge types, such as RGCNConv.",
    "csr": "it reads the graph in a format of its own (csr, csc, perm); use the conv "
    "that takes edge_index, such as GATConv.",
}
"""Maps endings of argument names to the reason why the conv cannot be uplifted."""
OTHER_CONVS = {
    "MeshCNNConv": "it needs exactly four edges per node, in a fixed order, which "
    "rooted subgraphs do not have; leave it out with skip=."
}
"""Maps class names of PyG convs to the reason why these convs cannot be uplifted."""
OTHER_MODULES = {
    "Dense": "it takes dense adjacency matrices; use the conv that takes edge_index, "
    "such as GCNConv instead of DenseGCNConv, or see "
    "docs/supported-convs.md#layers-with-a-dense-adjacency-matrix.",
    "CuGraph": "it reads the graph in the format of cuGraph; use the conv that takes "
    "edge_index, such as SAGEConv instead of CuGraphSAGEConv.",
    "DimeNet": "its messages go from edge to edge and depend on angles, so that there "
    "are no node states to copy to rooted subgraphs; use SchNet.",
    "GNNFF": "its messages go from edge to edge, so that there are no node states to "
    "copy to rooted subgraphs; use SchNet.",
    "WLConv": "it takes colours (whole numbers) instead of node states; use "
    "WLConvContinuous, or the tests of gnnak.wl.",
    "XConv": "it takes no edge_index but builds its own graph, so there is no graph to "
    "take rooted subgraphs of; use PointNetConv.",
}
"""Maps prefixes of class names to the reason why these modules cannot be uplifted. The
modules are PyG's and pass messages, but do not inherit from `MessagePassing`."""


def role_of(name: str) -> Role | None:
    """Return what an argument holds; None if its name does not tell.

    >>> role_of("edge_type"), role_of("pos"), role_of("beta")
    ('edge', 'node', None)
    """
    if name in ("num_nodes", "dim_size"):
        return "num_nodes"
    if name in NODE_ARGUMENTS:
        return "node"
    return "edge" if name.startswith("edge_") and "index" not in name else None


EDGE_ARGUMENTS = ("edge_attr", "edge_weight")
GRAPH_ARGUMENTS = ("edge_index", "adj_t", "adj")
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""The kinds of the parameters `*args` and `**kwargs`."""


def argument_names(module: nn.Module) -> tuple[str, ...]:
    return tuple(argument.name for argument in arguments_of(module))


def edge_arguments(gnn: nn.Module) -> dict[str, bool]:
    """Map the edge arguments of a GNN to True if named, or False if in `**kwargs`."""
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
    """Find the argument for edges by name, else take the second; None if missing."""
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
    """Return names of arguments for states and edges; None to pass them by position."""
    graph = graph_argument(gnn)
    if graph is None or graph not in argument_names(gnn)[2:]:
        return None
    return states_argument(gnn), graph


def further_arguments(gnn: nn.Module) -> dict[str, bool]:
    """Map further arguments of a GNN, such as `pos`, to whether they are required."""
    passed = (states_argument(gnn), graph_argument(gnn), *EDGE_ARGUMENTS, "batch")
    return {
        argument.name: argument.default is argument.empty
        for argument in arguments_of(gnn)
        if argument.kind not in VARIADIC and argument.name not in passed
    }


def check_module(what: str, value: object) -> None:
    """Raise `OptionError` unless `value` is an instance of `nn.Module`."""
    if isinstance(value, type):
        name = value.__name__
        raise OptionError(f"{what} {name} is a class; build it first: {name}(...).")
    if not isinstance(value, nn.Module):
        raise OptionError(
            f"{what} is {described(value)}; give a built PyTorch module, such as "
            "torch_geometric.nn.GCNConv(8, 8)."
        )


def check_callable(gnn: object) -> None:
    """Raise `OptionError` if `gnn` cannot be a base GNN; this does not run `gnn`."""
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
    """Return why a GNN cannot run on rooted subgraphs; None if it can."""
    if type(gnn).__name__ in OTHER_CONVS:
        return OTHER_CONVS[type(gnn).__name__]
    if reason := _other_module(gnn):
        return reason
    names = argument_names(gnn)
    for argument in arguments_of(gnn):
        for ending, reason in OTHER_GRAPHS.items():
            is_required = argument.default is argument.empty
            if is_required and argument.name.endswith(ending):
                return f"it takes {argument.name}; {reason}"
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
    """Return why a model without convs cannot be uplifted; None if that is unknown."""
    for part in model.modules():
        if reason := _other_module(part):
            return f"{type(part).__name__} cannot be uplifted: {reason}"
    return None


def _other_module(module: nn.Module) -> str | None:
    name, home = type(module).__name__, type(module).__module__
    of_pyg = home.startswith("torch_geometric.")
    if isinstance(module, MessagePassing) or not of_pyg:
        return None
    found = (OTHER_MODULES[start] for start in OTHER_MODULES if name.startswith(start))
    return next(found, None)


def arguments_of(gnn: nn.Module) -> list[inspect.Parameter]:
    """Return the parameters of `gnn.forward`, or of the conv in an uplifted conv."""
    named = getattr(getattr(gnn, "signature", None), "param_dict", None)
    if named is not None:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [inspect.Parameter(name, kind) for name in named]
    called_like = getattr(gnn, "called_like", None)
    if isinstance(called_like, nn.Module):
        return arguments_of(called_like)
    return list(inspect.signature(gnn.forward).parameters.values())


EDGE_WIDTH_NAMES = (
    "edge_dim",
    "edge_channels",
    "in_edge_channels",
    "in_channels",
    "in_features",
    "dim",
)
"""Names of module attributes that may hold the width of edge attributes."""


def node_widths(gnn: nn.Module) -> list[int]:
    """Return widths that a GNN's node states may have, likeliest first; [] if lazy."""
    if any(is_lazy(weight) for weight in gnn.parameters()):
        return []
    own = ("in_channels", "channels", "out_channels")
    declared = [getattr(gnn, name, None) for name in own]
    for part in gnn.modules():
        declared += [
            getattr(part, name, None) for name in ("in_channels", "in_features")
        ]
    return _unique(_as_width(width) for width in declared)


def edge_widths(gnn: nn.Module, in_channels: int) -> list[int]:
    """Return the widths that the edge attributes of a GNN may have, likeliest first.

    A Linear often reads an edge attribute together with one or two node states. So each
    width w in the GNN gives two more candidates: w - in_channels, w - 2 * in_channels.
    """
    declared = [
        getattr(part, name, None) for part in gnn.modules() for name in EDGE_WIDTH_NAMES
    ]
    for weight in gnn.parameters():
        if weight.is_floating_point() and not is_lazy(weight):
            declared += weight.shape
    widths = [in_channels, 1]
    for width in declared:
        if isinstance(width, int):
            widths += [width - ends * in_channels for ends in range(3)]
    return _unique(widths)


def _as_width(declared: object) -> int:
    if isinstance(declared, tuple) and declared and declared[0] == declared[-1]:
        declared = declared[0]
    return declared if isinstance(declared, int) else 0


def _unique(widths: Iterable[int]) -> list[int]:
    return [width for width in dict.fromkeys(widths) if width > 0]
