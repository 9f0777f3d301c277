"""Explain why a GNN-AK layer failed: find the argument that does not fit its weights.

These causes are searched for after a failure, not tested before every call: PyTorch
allows many mixtures of dtypes, and only the base GNN knows which of them work.
"""

import copy

import torch
from torch import Tensor, nn

from gnnak.errors import EdgeAttrError, GnnakError, WidthError
from gnnak.nn.calling.call import Calling
from gnnak.nn.calling.inputs import Inputs
from gnnak.nn.calling.roles import TYPE_ARGUMENTS
from gnnak.nn.calling.trial import Trial, trial_mode
from gnnak.nn.calling.widths import edge_widths

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
