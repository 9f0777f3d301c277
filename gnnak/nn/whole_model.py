"""`uplift(model)`: replace PyG convs inside a model by GNN-AK layers around them."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Unpack

from torch import nn
from torch_geometric.nn import MessagePassing

from gnnak.errors import OptionError
from gnnak.nn.calling import Call
from gnnak.nn.calling.call import first_weight
from gnnak.nn.calling.signature import check_module, module_refusal
from gnnak.nn.options import PAPER, LayerChanges, LayerOptions
from gnnak.nn.uplift import GNNAK
from gnnak.nn.uplifted_conv import LazyUpliftedConv, SharedInputs, UpliftedConv
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.shared import SharedSubgraphs
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import WithEncodings, structural_encodings
from gnnak.subgraphs.extractors import Extractor, check_extractor
from gnnak.typing import check_count

Selector = str | type
"""Selects modules by class, class name or module name ("encoder.conv1", "convs.*")."""
Selectors = Selector | Sequence[Selector] | None
UPLIFTED = (GNNAK, UpliftedConv, LazyUpliftedConv)


def uplift(
    model: nn.Module,
    num_hops: int | Extractor = 2,
    *,
    only: Selectors = None,
    skip: Selectors = None,
    call: Mapping[Selector, Call] | None = None,
    options: LayerOptions = PAPER,
    drop: SubgraphDrop | None = None,
    max_copies: int | None = None,
    **changes: Unpack[LayerChanges],
) -> nn.Module:
    """Return a copy of `model` with a GNN-AK layer in place of every PyG conv.

    The copy is called exactly like `model`, on the same batches. Each conv (any PyG
    `MessagePassing`), with its weights and widths, becomes the base GNN of a `GNNAK`
    layer with `hop="add"`. Subgraphs are extracted once per forward pass and shared by
    all layers. Later forward passes on equal edges reuse egonets. If you pass the
    rooted subgraphs of the batch as the keyword argument `subgraphs`, the copy uses
    them and extracts none. New weights take the dtype and the device of the conv's
    weights, or of the first weight of `model` if the conv has none.

    If a conv does not show how wide its node states and edge attributes are, its layer
    is built in the first forward pass. In this case, call the model once under
    `torch.no_grad()` before you build the optimizer; otherwise the optimizer does not
    train these layers.

    Args:
        model: Any module that contains PyG convs, or a single conv. `GNNAK` layers and
            convs that are already uplifted are copied unchanged.
        num_hops: Radius of the egonets; or an extractor of subgraphs, such as
            `EgoNets(...)` or `RandomWalks(...)`. Walks are sampled in each forward pass
            in training, and with a fixed seed in evaluation.
        only: Names or types of the convs to uplift, such as `"encoder"`, `"convs.*"` or
            `GCNConv`. If None, all convs are uplifted.
        skip: Names or types of the convs that are left as they are.
        call: Maps names or types of modules to a `Call`, which says what the module's
            arguments hold. These modules need not be PyG convs.
        options: Options of the layers; see `LayerOptions`.
        drop: Samples the rooted subgraphs that a forward pass in training uses. If
            None, training uses all subgraphs. Evaluation always uses all subgraphs.
        max_copies: To save memory, each layer computes the states of about this many
            node copies at a time. In training, the backward pass recomputes them.
            Outputs and gradients are the same. If the subgraphs do not fit into memory,
            each layer extracts them anew, slice by slice. If None, each layer computes
            all node copies at once.
        changes: Options that differ from `options`, such as `reduce="mean"`.

    >>> import torch
    >>> from torch_geometric.nn import GIN
    >>> net = uplift(GIN(16, 64, num_layers=2), num_hops=2)
    >>> net(torch.rand(3, 16), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 64])
    """
    check_module("the model", model)
    options = LayerOptions.resolve(options, changes, uplift)
    if max_copies is not None:
        check_count("max_copies", max_copies, least=1)
    if isinstance(num_hops, Extractor):
        check_extractor("num_hops", num_hops)  # refuses a class of extractors
        extractor = num_hops
    else:
        extractor = EgoNets(num_hops)
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
    hops = extractor.max_hops
    structural = structural_encodings(options.pairs)
    if structural:
        extractor = WithEncodings(extractor, structural)
    chosen = _choose(model, only, skip, call or {})
    shared = SharedInputs(SharedSubgraphs(extractor, drop, max_copies))
    make_layer = partial(
        GNNAK, max_hops=hops, hop="add", options=options, max_copies=max_copies
    )
    model = copy.deepcopy(model)
    like = first_weight(model)

    def wrap(name: str, conv: nn.Module) -> nn.Module:
        lazy = LazyUpliftedConv(conv, shared, make_layer, chosen[name], name, like)
        return lazy.built()

    uplifted = _replaced(model, chosen, wrap)
    begin, end = shared.subgraphs.begin_call, shared.subgraphs.end_call
    uplifted.register_forward_pre_hook(begin, with_kwargs=True)
    uplifted.register_forward_hook(end, always_call=True)
    uplifted.register_forward_hook(shared.growth.end_pass)
    return uplifted


def _choose(
    model: nn.Module, only: Selectors, skip: Selectors, call: Mapping[Selector, Call]
) -> dict[str, Call | None]:
    """Return the names of the modules to uplift, each with its `Call` or None."""
    _check_calls(call)
    found: dict[str, nn.Module] = {}
    calls: dict[str, Call | None] = {}

    def visit(name: str, module: nn.Module) -> None:
        if isinstance(module, UPLIFTED):
            return
        found_calls = (call[s] for s in call if matches(s, name, module))
        explicit = next(found_calls, None)
        if explicit is not None or isinstance(module, MessagePassing):
            found[name], calls[name] = module, explicit
            return
        for key, child in module._modules.items():
            if child is not None:
                visit(f"{name}.{key}" if name else key, child)

    visit("", model)
    if not found:
        if any(isinstance(part, UPLIFTED) for part in model.modules()):
            raise OptionError("this model is already uplifted; use it as it is.")
        raise OptionError(
            module_refusal(model)
            or f"{type(model).__name__} has no PyG MessagePassing inside to uplift; "
            "wrap your own GNN with gnnak.GNNAK, or say how it is called with call=."
        )
    wanted, left_out = listed("only", only, found), listed("skip", skip, found)
    listed("call", list(call), found)
    chosen = {
        name: calls[name]
        for name, conv in found.items()
        if (not wanted or any(matches(s, name, conv) for s in wanted))
        and not any(matches(s, name, conv) for s in left_out)
    }
    if not chosen:
        raise OptionError(
            "only= and skip= leave no conv to uplift; name more convs in only=, or "
            "fewer in skip=."
        )
    _check_homogeneous(model, chosen)
    return chosen


def matches(selector: Selector, name: str, module: nn.Module) -> bool:
    """Return whether `selector` fits a module's class or name, or a parent's name."""
    if isinstance(selector, type):
        return isinstance(module, selector)
    if selector in {cls.__name__ for cls in type(module).__mro__[:-1]}:
        return True
    parts = name.split(".")
    heads = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return any(fnmatchcase(head, selector) for head in heads)


def listed(
    option: str, given: Selectors, modules: Mapping[str, nn.Module]
) -> list[Selector]:
    """Return `given` as a list; raise `OptionError` if a selector matches no module."""
    many: list[Selector] = []
    if isinstance(given, str | type) or not isinstance(given, Iterable):
        many += [] if given is None else [given]
    else:
        many += given
    for selector in many:
        if not isinstance(selector, str | type):
            raise OptionError(
                f"{option} has {selector!r}; give names of modules, such as 'convs.0', "
                "or classes, such as GCNConv."
            )
        if not any(matches(selector, *item) for item in modules.items()):
            shown = getattr(selector, "__name__", repr(selector))
            known = ", ".join(
                f"{name or 'the model'} ({type(module).__name__})"
                for name, module in modules.items()
            )
            raise OptionError(
                f"{option}={shown} matches no conv of the model: {known}."
            )
    return many


def _check_calls(call: Mapping[Selector, Call]) -> None:
    known = isinstance(call, Mapping)
    if not known or not all(isinstance(value, Call) for value in call.values()):
        raise OptionError(
            f"call is {call!r}; give a dict from names or types of modules to "
            "gnnak.nn.Call, such as {MyConv: Call(states='h', edges='links')}."
        )


def _check_homogeneous(model: nn.Module, chosen: Mapping[str, object]) -> None:
    for name in chosen:
        parent_name, _, key = name.rpartition(".")
        edge_type = key.strip("<>").replace("___", "__").split("__")
        parent = model.get_submodule(parent_name)
        if isinstance(parent, nn.ModuleDict) and len(edge_type) == 3 and all(edge_type):
            raise OptionError(
                f"{name} is the conv of one edge type in a model for heterogeneous "
                "graphs, but rooted subgraphs are taken of homogeneous graphs; convert "
                "the graphs with HeteroData.to_homogeneous() and use a conv with edge "
                "types, such as RGCNConv."
            )


def _replaced(
    model: nn.Module, chosen: Iterable[str], wrap: Callable[[str, nn.Module], nn.Module]
) -> nn.Module:
    """Replace chosen modules by `wrap(name, module)`; wrap shared modules only once."""
    wrapped: dict[nn.Module, nn.Module] = {}
    for name in chosen:
        module = model.get_submodule(name)
        if isinstance(module, UPLIFTED):
            continue  # The module that contains it occurs twice in the model.
        if module not in wrapped:
            wrapped[module] = wrap(name, module)
        if not name:
            return wrapped[module]
        model.set_submodule(name, wrapped[module])
    return model
