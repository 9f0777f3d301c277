"""`uplift(model)`: every PyG conv inside any model, replaced by its uplifted form."""

import copy
from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from gnnak.errors import GraphError, OptionError
from gnnak.nn.calling import own_widths, try_out
from gnnak.nn.calling.signature import EDGE_ARGUMENTS, argument_names, check_module
from gnnak.nn.calling.widths import node_widths
from gnnak.nn.options import PAPER, LayerChanges, LayerOptions
from gnnak.nn.uplift import GNNAK
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.shared import SharedSubgraphs
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor


def uplift(
    model: nn.Module,
    num_hops: int | Extractor = 2,
    options: LayerOptions = PAPER,
    drop: SubgraphDrop | None = None,
    **changes: Unpack[LayerChanges],
) -> nn.Module:
    """Replace every PyG `MessagePassing` in a copy of `model` by its uplifted form.

    The result is called exactly like `model`, on the same batches. Each conv keeps its
    weights and width, and becomes the base GNN of a `GNNAK` layer with `hop="add"`.
    Subgraphs are extracted once per forward pass and shared by all layers; egonets
    also across passes over the very same `edge_index` tensor.

    Args:
        model: Any module with PyG convs in it, or a single conv; it is not changed.
            `GNNAK` layers and uplifted convs in it stay as they are.
        num_hops: Radius of the egonets, or what makes the subgraphs: `EgoNets(...)`,
            or `RandomWalks(...)`, whose walks are sampled anew in each pass in
            training, and from a fixed seed in evaluation.
        options: Options of the layers; see `LayerOptions`.
        drop: Samples the subgraphs that are used in training, anew in each forward
            pass; None = all are used. Evaluation uses all.
        changes: Single options that differ, such as `reduce="mean"`.

    >>> from torch_geometric.nn import GIN
    >>> net = uplift(GIN(16, 64, num_layers=2), num_hops=2)
    >>> net(torch.rand(3, 16), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 64])
    """
    check_module("the model", model)
    options = options.changed(**changes)
    extractor = num_hops if isinstance(num_hops, Extractor) else EgoNets(num_hops)
    shared = SharedSubgraphs(extractor, drop)

    def wrap(conv: MessagePassing) -> UpliftedConv:
        in_channels, out_channels = _widths(conv)
        layer = GNNAK(
            conv,
            in_channels,
            out_channels,
            max_hops=extractor.max_hops,
            hop="add",
            options=options,
        )
        return UpliftedConv(layer, shared)

    model = copy.deepcopy(model)
    if isinstance(model, MessagePassing):
        uplifted: nn.Module = wrap(model)
    else:
        _replace_convs(model, wrap)
        uplifted = model
    uplifted.register_forward_pre_hook(shared.begin_pass)
    return uplifted


def _replace_convs(
    model: nn.Module, wrap: Callable[[MessagePassing], nn.Module]
) -> None:
    """Replace each outermost conv in place; a conv in two places stays one module.

    What is uplifted already, `GNNAK` layers and `UpliftedConv`, stays as it is.
    """
    wrapped: dict[MessagePassing, nn.Module] = {}

    def visit(parent: nn.Module) -> None:
        if isinstance(parent, GNNAK | UpliftedConv):
            return
        for name, child in parent._modules.items():
            if isinstance(child, MessagePassing):
                if child not in wrapped:
                    wrapped[child] = wrap(child)
                parent._modules[name] = wrapped[child]
            elif child is not None:
                visit(child)

    visit(model)
    if not wrapped:
        raise OptionError(
            f"{type(model).__name__} has no PyG MessagePassing inside to uplift (those "
            "in GNNAK layers are uplifted already); wrap your own GNN with gnnak.GNNAK "
            "instead."
        )


def _widths(conv: MessagePassing) -> tuple[int, int]:
    """Input and output width of a conv."""
    name, widths = type(conv).__name__, own_widths(conv)
    if widths is not None:
        return widths
    declared = node_widths(conv)
    if not declared:
        raise OptionError(
            f"cannot tell the input width of {name}; wrap it with "
            "gnnak.GNNAK(conv, in_channels, out_channels, hop='add') by hand."
        )
    return declared[0], try_out(conv, declared[0], f"as {name} declares").out_channels


class UpliftedConv(nn.Module):
    """The uplifted form of a conv inside a model; called like the conv.

    Args:
        layer: The uplifted conv.
        shared: Where its subgraphs come from.
    """

    def __init__(self, layer: GNNAK, shared: SharedSubgraphs) -> None:
        super().__init__()
        self.layer = layer
        self.shared = shared
        self.arguments = argument_names(layer.gnn)

    @property
    def in_channels(self) -> int:
        """Width of the node states that come in."""
        return self.layer.in_channels

    @property
    def out_channels(self) -> int:
        """Width of the node states that go out."""
        return self.layer.out_channels

    def forward(
        self, x: Tensor, edge_index: Tensor, *args: object, **options: object
    ) -> Tensor:
        """Compute new node states with the conv's own arguments."""
        for name, value in (("x", x), ("edge_index", edge_index)):
            if not isinstance(value, Tensor) or value.layout != torch.strided:
                raise GraphError(
                    f"{name} is a {type(value).__name__}; an uplifted conv takes one "
                    "tensor of node states and one edge_index tensor [2, e]."
                )
        edge_attr = self._edge_attr(args, options)
        subgraphs = self.shared.get(edge_index, x.size(0), self.training)
        return self.layer(x, subgraphs, edge_attr)

    def _edge_attr(
        self, args: tuple[object, ...], options: dict[str, object]
    ) -> Tensor | None:
        """Find the edge attributes among the conv's further arguments."""
        named = dict(zip(self.arguments[2:], args, strict=False)) | options
        named.pop("batch", None)
        named.pop("batch_size", None)
        given = {name: value for name, value in named.items() if value is not None}
        known = [name for name in given if name in EDGE_ARGUMENTS]
        if len(given) != len(known) or len(known) > 1:
            raise OptionError(
                f"an uplifted {self.layer.calling.name} takes edge_attr or edge_weight "
                f"beside x and edge_index, but got {', '.join(given)}."
            )
        return given[known[0]] if known else None  # type: ignore[return-value]

    def reset_parameters(self) -> None:
        """Initialise all weights again, the conv's included."""
        for module in self.layer.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self.layer and callable(reset):
                reset()
