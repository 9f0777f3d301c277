"""Let PyG's explainers mask edges of a GNN that runs on rooted subgraphs.

`GNNExplainer` and others give every conv of a model a mask with one number per edge of
the graph. A base GNN runs on the edges of all rooted subgraphs, so the masks are copied
to these edges during its call.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch_geometric.nn import MessagePassing

from gnnak.nn.parts import parts_of
from gnnak.subgraphs.rooted import RootedSubgraphs

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
