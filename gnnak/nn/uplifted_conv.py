"""`UpliftedConv`: a GNN-AK layer that is called like the PyG conv inside it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gnnak.errors import GraphError, WidthError
from gnnak.nn.calling import Calling, Inputs
from gnnak.nn.calling.binding import Binding
from gnnak.nn.checks import check_states
from gnnak.nn.finite import is_finite, warn_not_finite
from gnnak.nn.shared_inputs import SharedInputs
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.wording import kind_of


class UpliftedConv(nn.Module):
    """A `GNNAK` layer that takes the same arguments as its base GNN, a PyG conv.

    `uplift` replaces each conv of a model by such a layer.

    Args:
        layer: The layer, with the conv as its base GNN.
        shared: What all layers of a model share: subgraphs are extracted once per
            forward pass.
        binding: Which arguments of the conv are the node states, the edges and so on.
        name: Name of the conv in the model, for error messages.
    """

    warned = False
    """Whether this layer has warned of inputs that are NaN or infinite."""
    width_of_first_call = False
    """Whether the layer was built in its first call, for the width of that input."""

    def __init__(
        self, layer: GNNAK, shared: SharedInputs, binding: Binding, name: str = ""
    ) -> None:
        super().__init__()
        self.layer = layer
        self.shared = shared
        self.binding = binding
        self.name = name

    @property
    def in_channels(self) -> int:
        """Width of the input node states."""
        return self.layer.in_channels

    @property
    def out_channels(self) -> int:
        """Width of the output node states."""
        return self.layer.out_channels

    @property
    def called_like(self) -> nn.Module:
        """The conv, whose arguments this module takes."""
        return self.layer.gnn

    def forward(self, *args: Any, **options: Any) -> Any:
        """Compute new node states, [n, out_channels].

        The arguments are those of the conv: node states, [n, in_channels], edges, as
        `edge_index`, [2, e], or as a sparse matrix, and further arguments with a row
        per node or per edge. `batch` and `batch_size` are accepted and ignored.

        If the conv returns a tuple, so does the layer: the first item is the tensor of
        new node states, and the other items are those of the conv on the whole graph.
        """
        x, edges, given = self.binding.bind(args, options)
        check_graph(x, edges, self.binding.name, self.name)
        edge_index, values = self.shared.edges.read(edges, num_rows(x))
        check_devices(x, edge_index)
        self._check_width(x)
        calling = self.layer.calling
        given = with_values(given, values, calling)
        inputs = self.binding.inputs(given, calling, x, edge_index.size(1))
        subgraphs = self.shared.subgraphs.compiled
        if subgraphs is None or not torch.compiler.is_compiling():
            subgraphs = self._subgraphs(x, edge_index, inputs)
        states = self.layer(x, subgraphs, inputs)
        if not torch.compiler.is_compiling():
            self.shared.growth.see(self.name, self.layer, x, states, subgraphs)
        if calling.returns_tuple:
            return (states, *self.layer.gnn(*args, **options)[1:])
        return states

    def _check_width(self, x: Tensor) -> None:
        """Raise `WidthError` unless `x` is a floating-point tensor [n, in_channels]."""
        width = x.size(1) if x.dim() == 2 else None
        if self.width_of_first_call and width not in (None, self.in_channels):
            name = self.name or self.binding.name
            raise WidthError(
                f"{name} was first called with states of width {self.in_channels}, and "
                f"is now called with width {width}; the weights of its GNN-AK layer "
                f"fit one width, so leave this conv out with skip={name!r}."
            )
        check_states(x, self.in_channels)

    @torch.compiler.disable
    def _subgraphs(
        self, x: Tensor, edge_index: Tensor, inputs: Tensor | Inputs | None
    ) -> RootedSubgraphs:
        """Return the rooted subgraphs, which all layers share in a forward pass.

        The first layer of a forward pass warns of inputs that are NaN or infinite. The
        inputs of a padded batch are not checked, since the check synchronises.
        """
        shared = self.shared.subgraphs
        first = shared.enter(self)
        subgraphs = shared.get(edge_index, x.size(0), self.training)
        if first and not self.warned and subgraphs.real is None:
            named = {"x": x, **_named_tensors(inputs)}
            # Read all inputs at once, since a read synchronises on a GPU.
            wrong = {} if is_finite(*named.values()) else named
            for name, values in wrong.items():
                if not is_finite(values):
                    self.warned = True
                    warn_not_finite(f"the input {name} of the model", values)
        return subgraphs

    def reset_parameters(self) -> None:
        """Initialise all weights of the layer, including those of the conv."""
        for module in self.layer.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self.layer and callable(reset):
                reset()


def _named_tensors(inputs: Tensor | Inputs | None) -> dict[str, Tensor]:
    """Return the tensors among the further inputs of a conv, by name."""
    named: Mapping[str, object] = {"edge_attr": inputs}
    if isinstance(inputs, Inputs):
        named = {**inputs.node, **inputs.edge}
    return {name: each for name, each in named.items() if isinstance(each, Tensor)}


def with_values(
    given: Mapping[str, Any], values: Tensor | None, calling: Calling
) -> dict[str, Any]:
    """Add the entries of a sparse adjacency matrix to the arguments of a conv.

    As in PyG, one number per edge is a weight, a whole number may also be a type, and a
    row per edge is an edge attribute. Values that the conv does not read are left out.

    Args:
        given: The further arguments by name.
        values: The values of the sparse matrix, [e] or [e, c]; None if there is none.
        calling: How the conv is called.
    """
    named = dict(given)
    if values is None:
        return named
    name = "edge_attr" if values.dim() > 1 else "edge_weight"
    if "edge_type" in calling.further and not values.is_floating_point():
        name = "edge_type"
    if name in (*calling.edge_arguments, *calling.further):
        named.setdefault(name, values)
    return named


def check_graph(x: object, edges: object, conv: str, name: str) -> None:
    """Raise `GraphError` unless `x` is one dense tensor of node states.

    Args:
        x: The node states of a call.
        edges: The edges of a call.
        conv: Class name of the conv, for the error message.
        name: Name of the conv in the model, for the error message.
    """
    out = f"skip={name!r}" if name else f"skip={conv}"
    if isinstance(x, Mapping) or isinstance(edges, Mapping):
        raise GraphError(
            "x and edge_index are dicts, as for heterogeneous graphs, but rooted "
            "subgraphs are taken of homogeneous graphs; convert the graphs with "
            f"HeteroData.to_homogeneous(), or leave {conv} out with {out}."
        )
    if isinstance(x, tuple | list):
        raise GraphError(
            f"x is {kind_of(x)}: {conv} is called on a bipartite graph, as in "
            "models for heterogeneous graphs, but rooted subgraphs are taken of one "
            f"set of nodes; leave this conv out with {out}."
        )
    if not isinstance(x, Tensor) or x.layout != torch.strided:
        kind = f"a {x.layout} tensor" if isinstance(x, Tensor) else kind_of(x)
        raise GraphError(
            f"x is {kind}; an uplifted {conv} takes one dense tensor of node states "
            "[n, c]; give, for example, positions or an embedding of node numbers."
        )


def num_rows(x: Tensor) -> int:
    """Return the number of nodes; 0 if the node states are a single number."""
    return x.size(0) if x.dim() else 0


def check_devices(x: Tensor, edge_index: Tensor) -> None:
    """Raise `GraphError` unless node states and edges are on one device."""
    if x.device != edge_index.device:
        raise GraphError(
            f"x is on {x.device}, but edge_index is on {edge_index.device}; move both "
            "to one device."
        )
