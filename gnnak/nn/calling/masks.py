"""Let PyG's explainers mask edges of a GNN that runs on rooted subgraphs."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from gnnak.subgraphs.rooted import RootedSubgraphs


def parts_of(module: nn.Module) -> list[nn.Module]:
    """Return a module and all modules inside it.

    Unlike with `module.modules()`, a module that occurs in several places is in the
    list several times.
    """
    found = [module]
    for part in module._modules.values():
        if part is not None:
            found += parts_of(part)
    return found


def any_weight(module: nn.Module) -> Tensor | None:
    """Return the first parameter of a module; None if it has none."""
    for part in parts_of(module):
        for weight in part._parameters.values():
            if weight is not None:
                return weight
    return None


MASKS = ("_edge_mask", "_loop_mask")
"""Attributes of a PyG conv with one entry per edge: how much of its message counts,
and whether the edge is no self loop."""


def explained_convs(gnn: nn.Module) -> list[MessagePassing]:
    """Return the convs of a GNN that have an edge mask of an explainer."""
    return [
        part
        for part in parts_of(gnn)
        if isinstance(part, MessagePassing)
        and part.explain is True
        and getattr(part, "_edge_mask", None) is not None
    ]


@contextmanager
def masks_on_copies(
    convs: list[MessagePassing], subgraphs: RootedSubgraphs
) -> Iterator[None]:
    """Context manager: copy the edge masks of convs to the edges of all subgraphs.

    Args:
        convs: The result of `explained_convs`.
        subgraphs: The rooted subgraphs that the convs run on.
    """
    # A value in __dict__ hides a parameter of the same name, which stays as it is.
    before = [(conv, {k: conv.__dict__.get(k) for k in MASKS}) for conv in convs]
    lifted = [
        {name: getattr(conv, name).index_select(0, subgraphs.edge) for name in MASKS}
        for conv in convs
    ]
    try:
        for conv, masks in zip(convs, lifted, strict=True):
            conv.__dict__.update(masks)
        yield
    finally:
        for conv, values in before:
            for name, value in values.items():
                if value is None:
                    conv.__dict__.pop(name, None)
                else:
                    conv.__dict__[name] = value
