"""`Inputs`: the arguments of one call of a GNN besides node states and edges."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from gnnak.errors import EdgeAttrError, GraphError
from gnnak.nn.copies import lift, lift_edges
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True)
class Inputs:
    """Arguments of one call of a base GNN, by name, besides node states and edges.

    `GNNAK.forward` takes such an object in place of `edge_attr`, for base GNNs with
    several edge arguments, positions, types or initial states.

    >>> import torch
    >>> Inputs(node={"pos": torch.rand(5, 3)}, edge={"edge_type": torch.zeros(8)})
    Inputs(pos=[5, 3] per node, edge_type=[8] per edge)
    """

    node: Mapping[str, Tensor] = field(default_factory=dict)
    """Arguments with one row or number per node, [n, ...]."""
    edge: Mapping[str, Tensor] = field(default_factory=dict)
    """Arguments with one row or number per edge, [e, ...]."""
    num_nodes: tuple[str, ...] = ()
    """Names of the arguments that take the number of nodes."""
    unchanged: Mapping[str, object] = field(default_factory=dict)
    """Arguments that are passed on as they are."""

    def lifted(self, subgraphs: RootedSubgraphs) -> dict[str, object]:
        """Return the arguments for the disjoint union of all rooted subgraphs.

        Rows of nodes and edges are copied to every subgraph with that node or edge.
        """
        return {
            **{name: lift(value, subgraphs) for name, value in self.node.items()},
            **{name: lift_edges(value, subgraphs) for name, value in self.edge.items()},
            **dict.fromkeys(self.num_nodes, subgraphs.num_copies),
            **self.unchanged,
        }

    def check(self, x: Tensor, num_edges: int | None) -> None:
        """Raise an error unless every argument has one row per node or edge.

        Args:
            x: Node states, [n, c], on the device that all arguments must be on.
            num_edges: Number of edges, e; None if unknown.
        """
        for name, value in self.node.items():
            if value.dim() < 1 or value.size(0) != x.size(0):
                raise GraphError(
                    f"{name} has shape {list(value.shape)}; give [{x.size(0)}, ...], "
                    "one row for every node."
                )
        for name, value in self.edge.items():
            wanted = value.size(0) if num_edges is None and value.dim() else num_edges
            if value.dim() < 1 or value.size(0) != wanted:
                raise EdgeAttrError(
                    f"{name} has shape {list(value.shape)}; give [{wanted}, ...], one "
                    "row for every column of edge_index."
                )
        for name, value in [*self.node.items(), *self.edge.items()]:
            if value.device != x.device:
                raise GraphError(
                    f"{name} is on {value.device}, but x is on {x.device}; move it "
                    f"with {name}.to('{x.device}')."
                )

    def __repr__(self) -> str:
        parts = [f"{k}={list(v.shape)} per node" for k, v in self.node.items()]
        parts += [f"{k}={list(v.shape)} per edge" for k, v in self.edge.items()]
        parts += [f"{name}=num_nodes" for name in self.num_nodes]
        parts += [f"{name}={value!r}" for name, value in self.unchanged.items()]
        return f"{type(self).__name__}({', '.join(parts)})"


def lift_inputs(
    inputs: Tensor | Inputs | None, subgraphs: RootedSubgraphs
) -> Tensor | dict[str, object] | None:
    """Copy edge attributes, or all arguments of `Inputs`, to every rooted subgraph.

    Args:
        inputs: Edge states, [e, c], or weights, [e]; or several arguments; or None.
        subgraphs: The rooted subgraphs.

    Returns:
        Edge states, [f, c], or weights, [f], of the f edges of all subgraphs; or the
        arguments by name; or None.
    """
    if isinstance(inputs, Inputs):
        return inputs.lifted(subgraphs)
    return None if inputs is None else lift_edges(inputs, subgraphs)
