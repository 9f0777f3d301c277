"""`UpliftedConv`: a GNN-AK layer that is called like the PyG conv inside it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from gnnak.errors import GraphError, SubgraphError, WidthError, kind_of
from gnnak.graphs.adjacency import check_edge_shape
from gnnak.nn.calling import Call, Calling, Inputs, own_widths, try_out
from gnnak.nn.calling.call import Binding, EdgeReader, edge_kind, first_weight
from gnnak.nn.calling.signature import (
    EDGE_ARGUMENTS,
    check_callable,
    edge_arguments,
    further_arguments,
    keywords,
    node_widths,
)
from gnnak.nn.calling.trial import trial_mode, unknown_arguments
from gnnak.nn.features import is_finite, warn_not_finite
from gnnak.nn.uplift import GNNAK, check_states
from gnnak.sampling.shared import SharedSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs


class UpliftedConv(nn.Module):
    """A `GNNAK` layer that takes the same arguments as its base GNN, a PyG conv.

    `uplift` replaces each conv of a model by such a layer.

    Args:
        layer: The layer, with the conv as its base GNN.
        shared: Objects that all layers of a model share, such as the subgraphs, which
            are extracted once per forward pass.
        binding: Which arguments of the conv are the node states, the edges and so on.
        name: Name of the conv in the model, for error messages.
    """

    warned = False
    """Whether this layer has warned of inputs that are NaN or infinite."""
    width_of_first_call = False
    """Whether the layer was built in its first call, where the input set its width."""

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
        """The conv, which takes the same arguments as this module."""
        return self.layer.gnn

    def forward(self, *args: Any, **options: Any) -> Any:
        """Compute new node states, [n, out_channels].

        The arguments are those of the conv: node states, [n, in_channels], edges, and
        further arguments with a row per node or per edge. Edges are an `edge_index`,
        [2, e], or a sparse matrix. `batch` and `batch_size` are accepted and ignored.

        If the conv returns a tuple, so does the layer. Its first item has the new node
        states. Its other items are those that the conv returns on the whole graph.
        """
        x, edge_index, values, given = read_call(self, args, options)
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
        """Return the subgraphs; the first layer warns of NaN or infinite inputs."""
        shared = self.shared.subgraphs
        first = shared.enter(self)
        subgraphs = shared.get(edge_index, x.size(0), self.training)
        if subgraphs.has_some_roots(x.size(0)):
            raise SubgraphError(
                f"an uplifted model got subgraphs of {subgraphs.num_subgraphs} roots "
                f"for {x.size(0)} nodes, but each layer needs the states that the one "
                "before computes for all nodes; give a subgraph of every node."
            )
        self.layer.encode_pairs(subgraphs, edge_index)
        if first and not self.warned and subgraphs.real is None:
            named = {"x": x}
            if isinstance(inputs, Inputs):
                named |= {**inputs.node, **inputs.edge}
            elif inputs is not None:
                named["edge_attr"] = inputs
            # Read all inputs at once, since a read synchronises on a GPU.
            wrong = {} if is_finite(*named.values()) else named
            for name, values in wrong.items():
                if not is_finite(values):
                    self.warned = True
                    warn_not_finite(f"the input {name} of the model", values)
        return subgraphs

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        """Load weights; add an error message if they are those of the plain conv."""
        super()._load_from_state_dict(state_dict, prefix, *more)
        if state_dict and not any(k.startswith(f"{prefix}layer.") for k in state_dict):
            told = "has weights from before uplift; load them into the model, and then"
            more[-1].append(f"{prefix.rstrip('.') or 'the model'} {told} uplift it.")

    def reset_parameters(self) -> None:
        """Initialise all weights of the layer, including those of the conv."""
        for module in self.layer.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self.layer and callable(reset):
                reset()


class LazyUpliftedConv(nn.Module):
    """An uplifted conv whose GNN-AK layer is not built yet.

    `built` or the first call turns this object into an `UpliftedConv`, once the conv's
    widths are known. The layer gets dtype and device of the conv's weights. If the conv
    has none, it gets those of the tensor `like` or, without `like`, of the first input.
    """

    def __init__(
        self,
        conv: nn.Module,
        shared: SharedInputs,
        make_layer: Callable[..., GNNAK],
        call: Call | None,
        name: str,
        like: Tensor | None,
    ) -> None:
        super().__init__()
        if call is None:
            check_callable(conv)
        self.conv = conv
        self.shared = shared
        self.make_layer = make_layer
        self.binding = Binding.of(conv, call)
        self.name = name
        own = first_weight(conv)
        like = like if own is None else own
        self.has_weights = like is not None
        device, dtype = (None, None) if like is None else (like.device, like.dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)  # type: ignore[call-arg]

    def built(self) -> nn.Module:
        """Build the layer if the widths of the conv are known; return `self`."""
        conv, call = self.conv, self.binding.call
        if call is not None:
            if call.in_channels is not None and call.out_channels is not None:
                calling = call.calling(conv, call.out_channels)
                self._become(call.in_channels, calling)
            return self
        widths, name = own_widths(conv), type(conv).__name__
        if widths is not None:
            self._become(widths[0], try_out(conv, widths[0], f"as {name} declares"))
            return self
        needs_more = any(further_arguments(conv).values())
        if (
            node_widths(conv)
            and not needs_more
            and "edge_attr" not in edge_arguments(conv)
        ):
            try_out(conv, node_widths(conv)[0], f"as {name} declares")
        return self

    @property
    def called_like(self) -> nn.Module:
        return self.conv

    def forward(self, *args: Any, **options: Any) -> Any:
        x, edge_index, values, given = read_call(self, args, options)
        if not x.is_floating_point():
            name = self.name or self.binding.name
            raise GraphError(
                f"the first argument of {name}, {self.binding.states}, is {x.dtype}, "
                "but node states are real numbers; leave this conv out with "
                f"skip={name!r}, or say what its arguments are with call=."
            )
        call = self.binding.call
        width = (call and call.in_channels) or (x.size(1) if x.dim() == 2 else 0)
        check_states(x, width)
        calling = self._tried(x, given.get("edge_attr", values))
        if calling is None:
            draft = self._draft()
            given = with_values(given, values, draft)
            inputs = self.binding.inputs(given, draft, x, edge_index.size(1))
            if isinstance(inputs, Inputs):
                inputs.check(x, edge_index.size(1))
            calling = self._completed(draft, x, inputs, args, options)
        self._become(width, calling, x)
        self.width_of_first_call = True
        if self.training and torch.is_grad_enabled():
            warnings.warn(
                f"the GNN-AK layer of {self.name or self.binding.name} is built now, "
                f"for states of width {width}, and an optimizer that was built before "
                "does not train it; first call the model once under torch.no_grad(), "
                "then build the optimizer.",
                stacklevel=2,
            )
        return self(*args, **options)

    def _tried(self, x: Tensor, edge_attr: Tensor | None) -> Calling | None:
        """Try out the conv on a small graph; return None if this cannot succeed."""
        if self.binding.call is None and not unknown_arguments(self.conv):
            try:
                return try_out(self.conv, x.size(1), "the width of x", edge_attr)
            except WidthError:
                if not further_arguments(self.conv):
                    raise
        return None

    def _draft(self) -> Calling:
        """Return how to call the conv, without what its first call will tell."""
        conv, call = self.conv, self.binding.call
        if call is not None:
            return call.calling(conv, 0)
        return Calling(
            self.binding.name,
            0,
            EDGE_ARGUMENTS,
            takes_batch="batch" in self.binding.names,
            needs_edges=False,
            keywords=keywords(conv),
        )

    def _completed(
        self,
        draft: Calling,
        x: Tensor,
        inputs: Tensor | Inputs | None,
        args: tuple[Any, ...],
        options: Any,
    ) -> Calling:
        """Call the conv, to find its output width and the edge arguments it accepts."""
        conv, call, name = self.conv, self.binding.call, self.binding.name
        try:
            with trial_mode(conv):
                out = conv(*args, **options)
        except RuntimeError as error:
            draft.explain(error, inputs, first_width=x.size(1))
            raise
        is_tuple = isinstance(out, tuple | list)
        states = out[0] if is_tuple else out
        if not isinstance(states, Tensor) or states.shape[:-1] != x.shape[:1]:
            raise WidthError(
                f"{name} returns no node states [{x.size(0)}, c]; give one row for "
                f"every row of x, or leave it out with skip={self.name or name!r}."
            )
        if call is not None and call.out_channels not in (None, states.size(1)):
            raise WidthError(
                f"{name} returns states of width {states.size(1)}, but its Call "
                f"has out_channels={call.out_channels}; correct it."
            )
        edges = draft.edges(inputs).items()
        return replace(
            draft,
            out_channels=states.size(1),
            returns_tuple=call.returns_tuple if call is not None else is_tuple,
            edge_kinds={name: edge_kind(value) for name, value in edges},
        )

    def _become(
        self, in_channels: int, calling: Calling, x: Tensor | None = None
    ) -> None:
        width = calling.out_channels
        layer = self.make_layer(self.conv, in_channels, width, calling=calling)
        if first_weight(self.conv) is None:
            like = self.weight if self.has_weights or x is None else x
            layer.to(like.device, like.dtype)
        layer.train(self.training)
        del self.conv, self.weight, self.make_layer, self.has_weights
        self.layer = layer
        self.__class__ = UpliftedConv  # type: ignore[assignment]

    def extra_repr(self) -> str:
        return "built at the first call, for the width of its input"


class SharedInputs:
    def __init__(self, subgraphs: SharedSubgraphs) -> None:
        self.subgraphs = subgraphs
        self.edges = EdgeReader()
        self.growth = GrowthWatch()


def read_call(
    conv: UpliftedConv | LazyUpliftedConv, args: tuple[Any, ...], options: Any
) -> tuple[Tensor, Tensor, Tensor | None, dict[str, Any]]:
    """Return node states, `edge_index`, edge values (or None) and other arguments."""
    x, edges, given = conv.binding.bind(args, options)
    check_graph(x, edges, conv.binding.name, conv.name)
    num_nodes = x.size(0) if x.dim() else 0
    edge_index, values = conv.shared.edges.read(edges, num_nodes)
    check_edge_shape(edge_index)
    if x.device != edge_index.device:
        raise GraphError(
            f"x is on {x.device}, but edge_index is on {edge_index.device}; move both "
            "to one device."
        )
    return x, edge_index, values, given


def check_graph(x: object, edges: object, conv: str, name: str) -> None:
    """Raise `GraphError` if `x` is not one dense tensor, or if `edges` is a dict."""
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


def with_values(
    given: Mapping[str, Any], values: Tensor | None, calling: Calling
) -> dict[str, Any]:
    """Add the values of a sparse matrix to the arguments, if the conv reads them."""
    named = dict(given)
    if values is None:
        return named
    name = "edge_attr" if values.dim() > 1 else "edge_weight"
    if "edge_type" in calling.further and not values.is_floating_point():
        name = "edge_type"
    if name in (*calling.edge_arguments, *calling.further):
        named.setdefault(name, values)
    return named


PASSES = 3
"""`GrowthWatch` measures states in this many forward passes in training."""
MAX_GROWTH = 10.0
"""`GrowthWatch` warns only if the layers scale node states by more than this factor."""
MAX_SIZE = 30.0
"""`GrowthWatch` warns only if the root mean square of the output is above this."""


class _LayerSizes(NamedTuple):
    name: str
    before: float
    after: float
    nodes: float
    """Mean number of nodes of a subgraph."""


class GrowthWatch:
    """Warns if node states grow from layer to layer in the first training steps.

    Without norms such as BatchNorm, sums over large subgraphs make states grow in every
    layer, so that training starts with a large loss.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._sizes: list[_LayerSizes] = []

    @torch.compiler.disable
    def see(
        self,
        name: str,
        layer: GNNAK,
        x: Tensor,
        states: Tensor,
        subgraphs: RootedSubgraphs,
    ) -> None:
        """Measure states before and after a layer; this synchronises with a GPU."""
        if self._passes >= PASSES or not layer.training or not x.numel():
            return
        capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()
        if capturing or subgraphs.real is not None:
            # Steps on padded batches are captured, so they must not synchronise.
            return
        if layer.reduce == "sum" and layer.encodings != ("centroid",):
            nodes = subgraphs.num_copies / max(subgraphs.num_subgraphs, 1)
            self._sizes.append(_LayerSizes(name, _size(x), _size(states), nodes))

    @torch.compiler.disable
    def end_pass(self, model: object, args: object, output: Any) -> None:
        """Forward hook of the model: warn if its layers made node states grow."""
        if not self._sizes:
            return
        layers, self._sizes = self._sizes, []
        self._passes += 1
        growth = layers[-1].after / max(layers[0].before, 1e-12)
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        size = _size(output)
        if growth > MAX_GROWTH and size > MAX_SIZE:
            self._passes = PASSES
            worst = max(layers, key=lambda each: each.after / max(each.before, 1e-12))
            warnings.warn(
                f"{len(layers)} uplifted convs multiply the size of node states by "
                f"{growth:.0f}, and the model's output has a typical size of "
                f"{size:.0f}; most of it comes from {worst.name or 'the conv'}, which "
                f"adds up the states of {worst.nodes:.0f} nodes per subgraph. Set "
                "reduce='mean' in gnnak.uplift, or put a norm, such as BatchNorm, "
                "after every conv. Warned once per model.",
                stacklevel=2,
            )


def _size(values: Tensor) -> float:
    values = values.detach()
    return float(values.square().mean().sqrt()) if values.numel() else 0.0
