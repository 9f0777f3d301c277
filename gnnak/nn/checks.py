"""Check the arguments of `GNNAK.forward`, and explain why a layer failed."""

import copy

import torch
from torch import Tensor, nn

from gnnak.errors import EdgeAttrError, GnnakError, SubgraphError, WidthError, kind_of
from gnnak.nn.calling.call import Calling, Inputs
from gnnak.nn.calling.signature import TYPE_ARGUMENTS, edge_widths
from gnnak.nn.calling.trial import Trial, trial_mode
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs


def check_states(x: Tensor, channels: int) -> None:
    """Raise `WidthError` unless `x` is a floating-point tensor [n, channels]."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise WidthError(f"x is {kind}; give a tensor of real numbers [n, {channels}].")
    if x.dim() != 2 or x.size(1) != channels:
        raise WidthError(f"x has shape {list(x.shape)}; give [n, {channels}].")


def check_subgraphs(
    subgraphs: RootedSubgraphs, x: Tensor, edge_attr: Tensor | None
) -> None:
    """Raise an error unless the subgraphs fit the node states and edge attributes.

    Args:
        subgraphs: One rooted subgraph per node, or the sample of these subgraphs that
            `SubgraphDrop` returns.
        x: Node states, [n, c].
        edge_attr: Edge states, [e, c], or weights, [e]; None if there are none.

    Raises:
        SubgraphError: If `subgraphs` is not a `RootedSubgraphs` object, belongs to a
            graph with another number of nodes, or is on another device than `x`.
        EdgeAttrError: If `edge_attr` does not have one row per edge, is a sparse
            tensor, or is on another device than `x`.
    """
    num_nodes = x.size(0)
    if not isinstance(subgraphs, RootedSubgraphs):
        raise SubgraphError(
            f"subgraphs is {kind_of(subgraphs)}; give the result of "
            "gnnak.EgoNets(num_hops)(edge_index, num_nodes)."
        )
    sampled = isinstance(subgraphs, SampledSubgraphs)
    if (subgraphs.num_nodes if sampled else subgraphs.num_subgraphs) != num_nodes:
        raise SubgraphError(
            f"there are {subgraphs.num_subgraphs} rooted subgraphs for {num_nodes} "
            "nodes; extract one for every node of this batch."
        )
    if subgraphs.device != x.device:
        raise SubgraphError(
            f"the subgraphs are on {subgraphs.device}, but x is on {x.device}; move "
            f"them with subgraphs.to('{x.device}')."
        )
    if edge_attr is not None:
        subgraphs.check_edge_attr(edge_attr)
        _check_edge_device(edge_attr, x.device)


def _check_edge_device(edge_attr: Tensor, device: torch.device) -> None:
    """Raise `EdgeAttrError` unless `edge_attr` is a dense tensor on `device`."""
    if edge_attr.layout != torch.strided:
        raise EdgeAttrError(
            f"edge_attr has the layout {edge_attr.layout}; convert it with .to_dense()."
        )
    if edge_attr.device != device:
        raise EdgeAttrError(
            f"edge_attr is on {edge_attr.device}, but x is on {device}; move it with "
            f"edge_attr.to('{device}')."
        )


def check_hops(subgraphs: RootedSubgraphs, max_hops: int) -> None:
    """Raise `SubgraphError` if a node is farther than `max_hops` from its root.

    The distance is the number of edges of a shortest path within the rooted subgraph.
    In code that `torch.compile` compiles, an assertion on the device replaces the
    error.
    """
    if torch.compiler.is_compiling():
        within = (subgraphs.hop <= max_hops).all()
        torch._assert_async(within, f"a hop is beyond max_hops={max_hops}")
        return
    known = subgraphs.hop_range
    if (known is None or known[1] > max_hops) and subgraphs.max_hop > max_hops:
        raise SubgraphError(
            f"a node is {subgraphs.max_hop} hops from its root, but this layer has "
            f"max_hops={max_hops}; build it with max_hops={subgraphs.max_hop}."
        )


EXPLAINED = (RuntimeError, ValueError, NotImplementedError, IndexError)
"""The types of exceptions that `explanation` can explain; not their subclasses."""


def first_weight(module: nn.Module) -> Tensor | None:
    """Return the first floating-point parameter of a module; None if it has none."""
    weights = (p for p in module.parameters() if p.is_floating_point())
    return next(weights, None)


def explanation(
    error: Exception,
    calling: Calling,
    gnn: nn.Module,
    x: Tensor,
    edge_attr: Tensor | Inputs | None,
    in_channels: int,
) -> GnnakError | None:
    """Return an error that says why a layer failed; None if the cause is unknown.

    Args:
        error: What the layer raised.
        calling: How the base GNN is called.
        gnn: The base GNN.
        x: Node states, [n, c].
        edge_attr: Edge states, [e, c], or weights, [e]; or several arguments; None if
            there are none.
        in_channels: Width of the base GNN's input.
    """
    weight = first_weight(gnn)
    if type(error) not in EXPLAINED or weight is None:
        return None
    text, name = str(error), calling.name
    if x.device != weight.device and "device" in text:
        return WidthError(
            f"x is on {x.device}, but the weights of {name} are on {weight.device}; "
            f"move the model with model.to('{x.device}'), or move x and edge_index."
        )
    if x.dtype != weight.dtype and "type" in text:
        return WidthError(
            f"x is {x.dtype}, but the weights of {name} are {weight.dtype}; convert x "
            f"with x.to({weight.dtype}), or the model with model.to({x.dtype})."
        )
    if isinstance(edge_attr, Inputs):
        return _type_error(calling, gnn, edge_attr)
    if edge_attr is None:
        return None
    if edge_attr.dtype != weight.dtype and "type" in text:
        return EdgeAttrError(
            f"edge_attr is {edge_attr.dtype}, but the weights of {name} are "
            f"{weight.dtype}; convert edge_attr with edge_attr.to({weight.dtype})."
        )
    return _edge_width_error(calling, gnn, edge_attr, in_channels)


def _type_error(
    calling: Calling, gnn: nn.Module, inputs: Inputs
) -> EdgeAttrError | None:
    """Return an error if edge types or node types are not integers 0, 1, ... in range.

    Return None if they are.
    """
    given = {**inputs.node, **inputs.edge}
    for name in TYPE_ARGUMENTS:
        types = given.get(name)
        if types is None or types.numel() == 0:
            continue
        if types.is_floating_point():
            return EdgeAttrError(
                f"{name} is {types.dtype}, with which {calling.name} fails; give whole "
                f"numbers 0, 1, ..., such as {name}.long()."
            )
        low, high = int(types.min()), int(types.max())
        count = getattr(gnn, "num_relations", None) if name == "edge_type" else None
        if low < 0 or (isinstance(count, int) and high >= count):
            wanted = f"0 to {count - 1}" if isinstance(count, int) else "0, 1, ..."
            return EdgeAttrError(
                f"{name} has values from {low} to {high}, but {calling.name} takes "
                f"{wanted}; renumber the types, or build {calling.name} for more types."
            )
    return None


def _edge_width_error(
    calling: Calling, gnn: nn.Module, edge_attr: Tensor, in_channels: int
) -> EdgeAttrError | None:
    """Return an error if the base GNN fails with edge attributes of this shape.

    A copy of the GNN is called on a path of three nodes, with edge attributes of the
    given width, and then with other widths to find one that works.
    """
    argument = calling.edge_argument(edge_attr)
    gnn = copy.deepcopy(gnn)
    trial = Trial(gnn, in_channels, calling.takes_batch)
    with trial_mode(gnn):
        if trial.call_with(argument, edge_attr.shape[1:], edge_attr.dtype) is not None:
            return None
        shapes = [torch.Size([width]) for width in edge_widths(gnn, in_channels)]
        working_widths = (
            shape[0]
            for shape in shapes
            if trial.call_with(argument, shape, edge_attr.dtype) is not None
        )
        width = next(working_widths, None)
    wanted = "of another width" if width is None else f"of shape [e, {width}]"
    return EdgeAttrError(
        f"edge_attr has shape {list(edge_attr.shape)}, with which {calling.name} "
        f"fails; give edge attributes {wanted}, or build {calling.name} for this width."
    )
