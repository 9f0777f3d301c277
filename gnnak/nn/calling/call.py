"""Describe what the arguments of a GNN hold, and call the GNN with these arguments."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import to_edge_index
from torch_geometric.utils.sparse import is_sparse

from gnnak.errors import EdgeAttrError, GraphError, OptionError, WidthError, kind_of
from gnnak.nn.calling.signature import (
    EDGE_ARGUMENTS,
    Role,
    argument_names,
    graph_argument,
    role_of,
    states_argument,
)
from gnnak.nn.copies import lift, lift_edges
from gnnak.subgraphs.attached import equal_edges
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call of a base GNN, by name, except node states and edges.

    `GNNAK.forward` takes an `Inputs` in place of `edge_attr`, for base GNNs with
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
    """Arguments that the base GNN gets unchanged."""

    def lifted(self, subgraphs: RootedSubgraphs) -> dict[str, object]:
        """Return arguments by name; those per node or edge have a row per copy."""
        return {
            **{name: lift(value, subgraphs) for name, value in self.node.items()},
            **{name: lift_edges(value, subgraphs) for name, value in self.edge.items()},
            **dict.fromkeys(self.num_nodes, subgraphs.num_copies),
            **self.unchanged,
        }

    def check(self, x: Tensor, num_edges: int | None) -> None:
        """Raise an error for an argument with a wrong device or number of rows."""
        of_nodes = (self.node, x.size(0), GraphError, "node")
        of_edges = (self.edge, num_edges, EdgeAttrError, "column of edge_index")
        for values, count, error, each in (of_nodes, of_edges):
            for name, value in values.items():
                if not value.dim() or count not in (None, value.size(0)):
                    raise error(
                        f"{name} has shape {list(value.shape)}; give [{count}, ...], "
                        f"one row for every {each}."
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
    """Copy edge attributes, or all arguments of `Inputs`, to every rooted subgraph."""
    if isinstance(inputs, Inputs):
        return inputs.lifted(subgraphs)
    return None if inputs is None else lift_edges(inputs, subgraphs)


@dataclass(frozen=True, kw_only=True)
class Call:
    """What the arguments of a module's `forward` hold, for `uplift(model, call=...)`.

    With a `Call`, `uplift` does not guess what arguments hold from their names, and
    makes no trial run. The module need not be a PyG conv. Arguments that the `Call`
    does not list are passed on unchanged.

    >>> Call(states="h", edges="links", edge=("distance",))
    Call(states='h', edges='links', node=(), edge=('distance',), batch=None, \
in_channels=None, out_channels=None, returns_tuple=False)
    """

    states: str = "x"
    """The argument that takes node states, [n, in_channels]."""
    edges: str = "edge_index"
    """The argument that takes directed edges, [2, e]."""
    node: Sequence[str] = ()
    """Arguments with one row or number per node, such as positions."""
    edge: Sequence[str] = ()
    """Arguments with one row or number per edge, such as edge types."""
    batch: str | None = None
    """The argument that takes each node's graph index; None if there is none."""
    in_channels: int | None = None
    """Width of the node states. If None, the first call determines it."""
    out_channels: int | None = None
    """Width of the output. If None, the first call runs the module to find it."""
    returns_tuple: bool = False
    """Whether the module returns a tuple with the node states as its first item."""

    def __post_init__(self) -> None:
        for name in ("node", "edge"):
            given = getattr(self, name)
            listed = (given,) if isinstance(given, str) else tuple(given)
            object.__setattr__(self, name, listed)
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)

    def check(self, module: nn.Module) -> None:
        """Raise `OptionError` if `module.forward` lacks an argument of this `Call`."""
        names = argument_names(module)
        batch = () if self.batch is None else (self.batch,)
        for name in (self.states, self.edges, *self.node, *self.edge, *batch):
            if name not in names:
                raise OptionError(
                    f"the Call of {type(module).__name__} names the argument {name!r}, "
                    f"but its forward takes {', '.join(names)}; name one of these."
                )

    def calling(self, module: nn.Module, out_channels: int) -> Calling:
        """Return the `Calling` of a module whose output has width `out_channels`."""
        return Calling(
            type(module).__name__,
            out_channels,
            edge_arguments=EDGE_ARGUMENTS,
            takes_batch=self.batch is not None,
            needs_edges=False,
            returns_tuple=self.returns_tuple,
            keywords=(self.states, self.edges),
            batch_argument=self.batch or "batch",
            in_channels=self.in_channels,
        )


@dataclass(frozen=True)
class Calling:
    """How to call one GNN: the arguments that it reads, and the width of its output."""

    name: str
    """Class name of the GNN, for error messages."""
    out_channels: int
    edge_arguments: tuple[str, ...]
    """Which of the arguments `edge_attr` and `edge_weight` the GNN reads."""
    takes_batch: bool
    needs_edges: bool
    """Whether the GNN fails if it is called without edge attributes."""

    further: tuple[str, ...] = ()
    """Names of further arguments that the GNN needs, such as `edge_type` or `pos`."""
    returns_tuple: bool = False
    """Whether the GNN returns a tuple with the node states as its first item."""
    keywords: tuple[str, str] | None = None
    """Argument names of node states and edges. If None, both are passed by position."""
    batch_argument: str = "batch"
    edge_width: int | None = None
    """Width of `edge_attr` that the GNN declares, in its attribute `edge_dim`."""
    edge_kinds: Mapping[str, str] = field(default_factory=dict)
    """Maps edge arguments to a dtype and shape that the GNN has accepted, as text."""
    in_channels: int | None = None
    """Width of the node states, if a `Call` says it."""

    def edge_argument(self, edge_attr: Tensor) -> str:
        """Return which argument takes `edge_attr`: "edge_attr" or "edge_weight"."""
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

    def check_edge_attr(self, edge_attr: Tensor) -> None:
        """Raise `EdgeAttrError` unless the GNN reads edge attributes of this shape."""
        width = edge_attr.size(1) if edge_attr.dim() > 1 else 1
        is_attr = self.edge_argument(edge_attr) == "edge_attr"
        if is_attr and self.edge_width not in (None, width):
            raise EdgeAttrError(
                f"edge_attr has shape {list(edge_attr.shape)}, but {self.name} was "
                f"built with edge_dim={self.edge_width}; give edge attributes of shape "
                f"[e, {self.edge_width}], or build {self.name} for this width."
            )

    def edges(self, edge_attr: Tensor | Inputs | None) -> Mapping[str, Tensor]:
        """Return all arguments with one row or number per edge, by name."""
        if isinstance(edge_attr, Inputs):
            return edge_attr.edge
        return {} if edge_attr is None else {self.edge_argument(edge_attr): edge_attr}

    def explain(
        self,
        error: Exception,
        edge_attr: Tensor | Inputs | None,
        first_width: int | None = None,
    ) -> None:
        """Raise a clearer error if the inputs or a `Call` may have caused `error`.

        `first_width` is the width of the node states if the GNN has not run before.
        """
        if isinstance(error, torch.OutOfMemoryError):
            return
        edges = self.edges(edge_attr)
        for name, value in edges.items():
            known = self.edge_kinds.get(name)
            if known not in (None, edge_kind(value)):
                raise EdgeAttrError(
                    f"{self.name} failed on {name} of shape {list(value.shape)} and "
                    f"dtype {value.dtype}, but runs on {known}; give {name} as "
                    f"{known}, or build {self.name} for this {name}."
                ) from error
        width, advice = first_width, f"give inputs that fit {self.name}"
        if self.in_channels is not None:
            width, of_call = self.in_channels, "in_channels or out_channels of its Call"
            advice = f"correct {of_call} if they are wrong, or {advice}"
        if width is not None:
            shapes = [f"{name} of shape {list(v.shape)}" for name, v in edges.items()]
            inputs = " and ".join([*shapes, f"states of width {width}"])
            raise WidthError(
                f"{self.name} failed on {inputs}: {error}; {advice}."
            ) from error

    def __call__(
        self,
        gnn: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | Mapping[str, Any] | None,
        batch: Tensor | None,
    ) -> Tensor:
        """Call `gnn` with the arguments that it reads; return node states, [n, c].

        `edge_attr` has edge states, [e, c], or weights, [e], or several arguments by
        name. `batch` is the index of the graph or rooted subgraph of each node, [n].
        """
        options = self._options(edge_attr)
        if self.takes_batch:
            options[self.batch_argument] = batch
        if self.keywords is None:
            out = gnn(x, edge_index, **options)
        else:
            states, graph = self.keywords
            out = gnn(**{states: x, graph: edge_index}, **options)
        states = out[0] if self.returns_tuple else out
        if not isinstance(states, Tensor) or states.shape[:-1] != x.shape[:1]:
            shape = list(getattr(states, "shape", [])) or kind_of(states)
            raise WidthError(
                f"{self.name} returned {shape}; give one row for every row of x, "
                f"[{x.size(0)}, {self.out_channels}]."
            )
        return states

    def _options(
        self, edge_attr: Tensor | Mapping[str, Any] | None
    ) -> dict[str, object]:
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


def edge_kind(edge_attr: Tensor) -> str:
    """Return dtype and shape of edge attributes as text, such as "torch.int64 [e]"."""
    kind = "real numbers" if edge_attr.is_floating_point() else edge_attr.dtype
    return f"{kind} [{', '.join(['e', *map(str, edge_attr.shape[1:])])}]"


def first_weight(module: nn.Module) -> Tensor | None:
    # This is faster than module.parameters().
    for weight in module._parameters.values():
        if weight is not None and weight.is_floating_point():
            return weight
    for part in module._modules.values():
        found = None if part is None else first_weight(part)
        if found is not None:
            return found
    return None


MASKS = ("_edge_mask", "_loop_mask")
"""Attributes that PyG's explainers set in a conv: a factor for each edge's message, and
a mask that is False for self loops."""


def explained_convs(gnn: nn.Module) -> list[MessagePassing]:
    """Return the convs of a GNN in which one of PyG's explainers has set edge masks."""
    found = []
    if isinstance(gnn, MessagePassing) and gnn.explain is True:
        found = [gnn] if getattr(gnn, "_edge_mask", None) is not None else []
    for part in gnn._modules.values():
        if part is not None:
            found += explained_convs(part)
    return found


@contextmanager
def masks_on_copies(
    convs: list[MessagePassing], subgraphs: RootedSubgraphs
) -> Iterator[None]:
    """Context manager: copy the edge masks of explainers in `convs` to edge copies."""
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


IGNORED = ("batch", "batch_size")
"""Arguments that an uplifted conv ignores. As `batch`, its base GNN gets the index of
the subgraph of each node copy."""
REFUSED = ("return_attention_weights", "return_semantic_attention_weights")
"""Arguments that an uplifted conv refuses: they ask for one attention weight per edge,
but an edge has one in every subgraph."""


@dataclass(frozen=True)
class Binding:
    """What each argument of a conv holds, read from `call` or guessed from names."""

    name: str
    """Class name of the conv, for error messages."""
    names: tuple[str, ...]
    """Names of all arguments of the conv's `forward`."""
    states: str
    """Name of the argument for node states."""
    graph: str
    """Name of the argument for the graph's edges, such as `edge_index`."""
    call: Call | None = None

    @classmethod
    def of(cls, conv: nn.Module, call: Call | None = None) -> Binding:
        names, name = argument_names(conv), type(conv).__name__
        if call is not None:
            call.check(conv)
            return cls(name, names, call.states, call.edges, call)
        graph = graph_argument(conv) or "edge_index"
        return cls(name, names, states_argument(conv), graph)

    def bind(
        self, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Sort the arguments of a call. Returns node states, edges, and all others."""
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
        """Pack `given` into a tensor or an `Inputs`, which `GNNAK.forward` takes."""
        plain = set(given) <= set(EDGE_ARGUMENTS) and len(given) < 2
        if plain and self.call is None and not calling.further:
            return next(iter(given.values()), None)
        by_role: dict[Role | None, dict[str, Any]] = {}
        for name, value in given.items():
            role: Role | None = "edge"
            if name not in calling.edge_kinds:
                role = self._role(name, value, x.size(0), num_edges)
            by_role.setdefault(role, {})[name] = value
        return Inputs(
            by_role.get("node", {}),
            by_role.get("edge", {}),
            tuple(by_role.get("num_nodes", ())),
            by_role.get(None, {}),
        )

    def _role(self, name: str, value: Any, nodes: int, edges: int) -> Role | None:
        """Return what an argument holds, or None if it is passed on unchanged."""
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
    if isinstance(value, Tensor):
        return value.dim() > 0
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, list | tuple) and any(_holds_tensors(v) for v in value)


class EdgeReader:
    """Converts edges or a sparse matrix to `edge_index`, [2, e], and edge values.

    As in PyG, entry (i, j) of a matrix is the edge j -> i. If edges equal those of the
    last call, the tensor of that call is returned, so that its subgraphs are reused.
    The tensor is cached per thread, until the object that the user passed is freed.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def read(self, edges: Any, num_nodes: int) -> tuple[Tensor, Tensor | None]:
        """Return `edge_index` and the edge values (None if `edges` is not sparse)."""
        if is_sparse(edges):
            if (edges.size(0), edges.size(1)) != (num_nodes, num_nodes):
                raise GraphError(
                    f"the sparse matrix of the edges has {edges.size(0)} rows and "
                    f"{edges.size(1)} columns, but x has {num_nodes} nodes; give one "
                    "row and one column per node."
                )
            (row, column), values = _entries(edges)
            return self._cached(edges, torch.stack([column, row])), values
        if not isinstance(edges, Tensor):
            raise GraphError(
                f"edge_index is {kind_of(edges)}; an uplifted conv takes an "
                "edge_index tensor [2, e] or a sparse matrix adj_t."
            )
        if edges.is_floating_point() and edges.shape == (num_nodes, num_nodes):
            raise GraphError(
                f"edge_index is a dense matrix of shape {list(edges.shape)}; convert "
                "it with torch_geometric.utils.dense_to_sparse, which returns "
                "edge_index, [2, e], and edge weights."
            )
        if type(edges) is not Tensor and hasattr(edges, "as_tensor"):
            edges = self._cached(edges, edges.as_tensor())
        if edges.dtype in (torch.int32, torch.int16):
            return self._cached(edges, edges.long()), None
        return edges, None

    def _cached(self, owner: Any, edge_index: Tensor) -> Tensor:
        """Return `edge_index`, or the cached tensor if equal; cache the result."""
        state = self._of_thread
        last: Tensor | None = getattr(state, "edge_index", None)
        if last is not None and equal_edges(last, edge_index):
            edge_index = last

        def forget(dead: object) -> None:
            if getattr(state, "owner", None) is dead:
                state.owner = state.edge_index = None

        state.edge_index, state.owner = edge_index, weakref.ref(owner, forget)
        return edge_index

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__()  # type: ignore[misc]


def _entries(matrix: Any) -> tuple[Tensor, Tensor]:
    """Return rows and columns, [2, e], and values, [e, ...], of a sparse matrix."""
    if isinstance(matrix, Tensor) and matrix.layout == torch.sparse_coo:
        # PyG's function would mark the user's matrix as coalesced.
        return matrix._indices(), matrix._values()
    return to_edge_index(matrix)
