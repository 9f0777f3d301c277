"""Sort the arguments of a call of a conv: states, edges, rows per node or per edge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gnnak.errors import GraphError, OptionError
from gnnak.nn.calling.call import Calling
from gnnak.nn.calling.explicit import Call
from gnnak.nn.calling.inputs import Inputs
from gnnak.nn.calling.roles import Role, role_of
from gnnak.nn.calling.signature import (
    EDGE_ARGUMENTS,
    argument_names,
    graph_argument,
    states_argument,
)

IGNORED = ("batch", "batch_size")
"""Arguments that an uplifted conv accepts and ignores: the base GNN gets the index of
each node's subgraph as `batch`."""
REFUSED = ("return_attention_weights", "return_semantic_attention_weights")
"""Arguments that ask for a value per edge, of which the subgraphs have several."""


@dataclass(frozen=True)
class Binding:
    """Which argument of a conv holds what.

    With a `Call`, the user says so; otherwise, names and shapes of the arguments tell.
    """

    name: str
    """Class name of the conv, for error messages."""
    names: tuple[str, ...]
    """Names of the arguments of the conv's `forward`."""
    states: str
    """Name of the argument that takes node states."""
    graph: str
    """Name of the argument that takes edges."""
    call: Call | None = None
    """What the arguments hold, said by the user; None = told by names and shapes."""

    @classmethod
    def of(cls, conv: nn.Module, call: Call | None = None) -> "Binding":
        """Return the binding of a conv; `call` is checked against its arguments."""
        names, name = argument_names(conv), type(conv).__name__
        if call is not None:
            call.check(conv)
            return cls(name, names, call.states, call.edges, call)
        graph = graph_argument(conv) or "edge_index"
        return cls(name, names, states_argument(conv), graph)

    def bind(
        self, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Return the node states, the edges, and all further arguments by name.

        Arguments that are None, and those in `IGNORED`, are left out.
        """
        named = dict(zip(self.names, args, strict=False)) | dict(options)
        if self.graph == "edge_index" and self.graph not in self.names:
            rest = [a for a in args[2:] if a is not None]
            named = {self.states: args[0], self.graph: args[1], **options}
            if rest:
                raise OptionError(
                    f"the arguments of {self.name} have no names; pass those after x "
                    "and edge_index by keyword."
                )
        missing = [a for a in (self.states, self.graph) if a not in named]
        if missing:
            raise GraphError(f"{self.name} got no {missing[0]}; pass it.")
        x, edges = named.pop(self.states), named.pop(self.graph)
        ignored = IGNORED if self.call is None else (self.call.batch,)
        given = {
            name: value
            for name, value in named.items()
            if value is not None and name not in ignored
        }
        return x, edges, given

    def inputs(
        self, given: Mapping[str, Any], calling: Calling, x: Tensor, num_edges: int
    ) -> Tensor | Inputs | None:
        """Return the further arguments of a call as `GNNAK.forward` takes them.

        Args:
            given: The further arguments by name; none of them is None.
            calling: How the conv is called.
            x: Node states, [n, c].
            num_edges: Number of edges, e.
        """
        plain = set(given) <= set(EDGE_ARGUMENTS) and len(given) < 2
        if plain and self.call is None and not calling.further:
            return next(iter(given.values()), None)
        by_role: dict[Role | None, dict[str, Any]] = {}
        for name, value in given.items():
            role = self._role(name, value, x.size(0), num_edges)
            by_role.setdefault(role, {})[name] = value
        return Inputs(
            by_role.get("node", {}),
            by_role.get("edge", {}),
            tuple(by_role.get("num_nodes", ())),
            by_role.get(None, {}),
        )

    def _role(self, name: str, value: Any, nodes: int, edges: int) -> Role | None:
        """Return what an argument holds; None = it is passed on unchanged.

        Raises:
            OptionError: If neither the name nor the shape of a tensor tells.
        """
        if self.call is not None:
            in_edge = "edge" if name in self.call.edge else None
            return "node" if name in self.call.node else in_edge  # type: ignore[return-value]
        if name in REFUSED and value:
            raise OptionError(
                f"an uplifted {self.name} cannot return attention weights, since an "
                f"edge has one in each subgraph, but got {name}={value}; pass None."
            )
        if name == "size" and isinstance(value, Tensor):
            raise OptionError(
                f"{self.name} got a tensor of shape {list(value.shape)} as its "
                "argument size; if these are edge attributes, use a conv that reads "
                "them (GINEConv; GATConv and others with edge_dim=)."
            )
        role = role_of(name)
        if role is not None or not _holds_tensors(value):
            return role
        rows = value.size(0) if isinstance(value, Tensor) and value.dim() else None
        if rows is None or nodes == edges or rows not in (nodes, edges):
            kind = list(value.shape) if isinstance(value, Tensor) else type(value)
            raise OptionError(
                f"an uplifted {self.name} got {name} of shape {kind}, and cannot tell "
                "whether this has a row per node or per edge; say so with "
                f"gnnak.nn.Call, in uplift(model, call={{{self.name}: Call(...)}})."
            )
        return "node" if rows == nodes else "edge"


def _holds_tensors(value: object) -> bool:
    """Return whether a value is a tensor with rows, or a container of such tensors."""
    if isinstance(value, Tensor):
        return value.dim() > 0
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, list | tuple) and any(_holds_tensors(v) for v in value)
