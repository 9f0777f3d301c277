"""`Calling`: how one GNN is called, and how wide its output is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gnnak.errors import EdgeAttrError, GraphError
from gnnak.nn.calling.signature import EDGE_ARGUMENTS


@dataclass(frozen=True)
class Calling:
    """The arguments that one GNN reads, and the width of its output.

    Call this object with the GNN and all arguments. It passes on only the arguments
    that the GNN reads.
    """

    name: str
    """Class name of the GNN, for error messages."""
    out_channels: int
    """Width of the node states that the GNN returns."""
    edge_arguments: tuple[str, ...]
    """Which of the arguments `edge_attr` and `edge_weight` the GNN reads."""
    takes_batch: bool
    """Whether the GNN has an argument for the index of each node's graph."""
    needs_edges: bool
    """Whether the GNN fails if it is called without edge attributes."""

    further: tuple[str, ...] = ()
    """Names of further arguments that the GNN needs, such as `edge_type` or `pos`."""
    returns_tuple: bool = False
    """Whether the GNN returns a tuple, whose first item are the node states."""
    keywords: tuple[str, str] | None = None
    """Names of the arguments that take node states and edges; None if these are the
    first two arguments."""
    batch_argument: str = "batch"
    """Name of the argument that takes the index of each node's graph."""

    def edge_argument(self, edge_attr: Tensor) -> str:
        """Return the name of the GNN's argument that takes these edge attributes.

        Args:
            edge_attr: Edge states, [e, c], or weights, [e].

        Returns:
            "edge_attr" or "edge_weight".

        Raises:
            EdgeAttrError: If the GNN reads no edge attributes of this shape.
        """
        if edge_attr.dim() == 1 and "edge_weight" in self.edge_arguments:
            return "edge_weight"
        if "edge_attr" in self.edge_arguments:
            return "edge_attr"
        if "edge_weight" in self.edge_arguments:
            shape = list(edge_attr.shape)
            raise EdgeAttrError(
                f"{self.name} reads one weight per edge, but the edge attributes have "
                f"shape {shape}; pass weights of shape [e], or edge_attr=None."
            )
        raise self._unread("edge_attr")

    def __call__(
        self,
        gnn: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | Mapping[str, Any] | None,
        batch: Tensor | None,
    ) -> Tensor:
        """Call `gnn` with the arguments that it reads.

        Args:
            gnn: The GNN that this object describes.
            x: Node states, [n, c].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge states [e, c] or weights [e]; or several arguments by name;
                None if there are none.
            batch: Index of the graph or rooted subgraph that each node is in, [n];
                passed on only if the GNN has an argument `batch`.

        Returns:
            New node states, [n, out_channels]. If the GNN returns a tuple, its first
            item.

        Raises:
            EdgeAttrError: If `edge_attr` is None but the GNN needs edge attributes, or
                if the GNN reads no edge attributes of the given shape.
            GraphError: If an argument is missing that the GNN needs.
        """
        options = self._options(edge_attr)
        if self.takes_batch:
            options[self.batch_argument] = batch
        if self.keywords is None:
            out = gnn(x, edge_index, **options)
        else:
            states, graph = self.keywords
            out = gnn(**{states: x, graph: edge_index}, **options)
        return out[0] if self.returns_tuple else out

    def _options(
        self, edge_attr: Tensor | Mapping[str, Any] | None
    ) -> dict[str, object]:
        """Return the further arguments of a call by name; raise if one is missing."""
        options: dict[str, object] = {}
        if isinstance(edge_attr, Mapping):
            options |= edge_attr
            for name in EDGE_ARGUMENTS:
                if name in options and name not in self.edge_arguments + self.further:
                    raise self._unread(name)
        elif edge_attr is not None:
            options[self.edge_argument(edge_attr)] = edge_attr
        missing = [name for name in self.further if options.get(name) is None]
        if missing:
            raise GraphError(
                f"{self.name} needs {' and '.join(missing)}, but got none; pass "
                f"{missing[0]} in the call of the model."
            )
        if self.needs_edges and not any(name in options for name in EDGE_ARGUMENTS):
            raise EdgeAttrError(
                f"{self.name} needs edge attributes, but got none; pass edge_attr, or "
                "use a GNN that does not need them (GINConv instead of GINEConv)."
            )
        return options

    def _unread(self, name: str) -> EdgeAttrError:
        return EdgeAttrError(
            f"{self.name} does not read edge attributes and would drop them silently; "
            f"pass {name}=None, or use a GNN that reads them (GINEConv; GATConv and "
            "others with edge_dim=)."
        )
