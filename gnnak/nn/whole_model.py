"""`uplift(model)`: replace every PyG conv inside a model by a GNN-AK layer."""

import copy
from collections.abc import Callable
from typing import Unpack

from torch import nn
from torch_geometric.nn import MessagePassing

from gnnak.errors import OptionError
from gnnak.nn.calling import own_widths, try_out
from gnnak.nn.calling.signature import check_module
from gnnak.nn.calling.widths import node_widths
from gnnak.nn.failures import first_weight
from gnnak.nn.options import PAPER, LayerChanges, LayerOptions
from gnnak.nn.uplift import GNNAK
from gnnak.nn.uplifted_conv import UpliftedConv
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.shared import SharedSubgraphs
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor


def uplift(
    model: nn.Module,
    num_hops: int | Extractor = 2,
    *,
    options: LayerOptions = PAPER,
    drop: SubgraphDrop | None = None,
    **changes: Unpack[LayerChanges],
) -> nn.Module:
    """Return a copy of `model` with a GNN-AK layer in place of every PyG conv.

    The copy is called exactly like `model`, on the same batches. Each conv (any PyG
    `MessagePassing`), with its weights and widths, becomes the base GNN of a `GNNAK`
    layer with `hop="add"`. Subgraphs are extracted once per forward pass and shared by
    all layers. Egonets are also reused in later forward passes on equal edges. The copy
    also takes the keyword argument `subgraphs`: rooted subgraphs of the batch, which
    are then not extracted. New weights take the dtype and the device of the conv's
    weights, or of the first weight of `model` if the conv has none.

    Args:
        model: Any module that contains PyG convs, or a single conv. `GNNAK` layers and
            convs that are already uplifted are copied unchanged.
        num_hops: Radius of the egonets; or an extractor of subgraphs, such as
            `EgoNets(...)` or `RandomWalks(...)`. Walks are sampled in each forward pass
            in training, and with a fixed seed in evaluation.
        options: Options of the layers; see `LayerOptions`.
        drop: In training, selects the sample of rooted subgraphs that a forward pass
            uses; None = use all subgraphs. Evaluation always uses all subgraphs.
        changes: Options that differ from `options`, such as `reduce="mean"`.

    >>> import torch
    >>> from torch_geometric.nn import GIN
    >>> net = uplift(GIN(16, 64, num_layers=2), num_hops=2)
    >>> net(torch.rand(3, 16), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 64])
    """
    check_module("the model", model)
    options = LayerOptions.resolve(options, changes)
    extractor = num_hops if isinstance(num_hops, Extractor) else EgoNets(num_hops)
    if drop is not None and not isinstance(drop, SubgraphDrop):
        raise OptionError(
            f"drop is {drop!r}; give a SubgraphDrop, such as "
            "gnnak.SubgraphDrop('random', min_coverage=3), or None."
        )
    if getattr(extractor, "reads_batch", False):
        raise OptionError(
            f"uplift got {extractor!r}, but the convs of a model do not know which "
            "nodes are in one graph; use gnnak.EgoNets, or call gnnak.GNNAK layers "
            "with the subgraphs of a batch."
        )
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
        if weight is not None and first_weight(conv) is None:
            layer.to(weight.device, weight.dtype)
        return UpliftedConv(layer, shared)

    weight = first_weight(model)
    model = copy.deepcopy(model)
    if isinstance(model, MessagePassing):
        uplifted: nn.Module = wrap(model)
    else:
        _replace_convs(model, wrap)
        uplifted = model
    uplifted.register_forward_pre_hook(shared.begin_call, with_kwargs=True)
    uplifted.register_forward_hook(shared.end_call, always_call=True)
    return uplifted


def _replace_convs(
    model: nn.Module, wrap: Callable[[MessagePassing], nn.Module]
) -> None:
    """Replace every PyG conv inside `model` by `wrap(conv)`, in place.

    A conv inside another conv, a `GNNAK` layer or an `UpliftedConv` is not replaced. If
    `model` uses one conv in two places, both get the same wrapped conv, so that the
    weights stay shared.

    Raises:
        OptionError: If there is no conv to replace.
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
    """Return the input and output width of a conv.

    Raises:
        OptionError: If no input width is declared by the conv or its submodules.
        WidthError: If the conv fails with every declared input width.
    """
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
