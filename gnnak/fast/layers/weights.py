"""Weight-only terms: products of weights, computed for all layers of a model at once.

Batched over layers, small matrix products need about a tenth of the kernel launches.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from inspect import unwrap
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from gnnak.fast.kernels.records import BIAS_COLUMN
from gnnak.fast.layers.parts import Serves, autocast_dtype, blocks_of, implements
from gnnak.models.network import Network
from gnnak.nn.encodings import HopGate
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs


class ModelCall:
    """One call of a model, with a cache for results that its layers share."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.results: dict[Any, Any] = {}

    @cached_property
    def layers(self) -> list[GNNAK]:
        return [part for part in self.model.modules() if isinstance(part, GNNAK)]


_current: ContextVar[ModelCall | None] = ContextVar("model_call", default=None)


@implements("run_layers")
def run_layers(_: Serves, network: Network, *arguments: Any) -> Tensor:
    if network.recompute and network.training:
        return NotImplemented
    with call_of(network):
        return unwrap(Network.run_layers)(network, *arguments)


@contextmanager
def call_of(model: nn.Module) -> Iterator[None]:
    """Context manager for one call of a model, whose layers share cached results."""
    if torch.compiler.is_compiling():
        yield
        return
    token = _current.set(ModelCall(model))
    try:
        yield
    finally:
        _current.reset(token)


T = TypeVar("T")


def once_in_call(name: str, key: Tensor, compute: Callable[[], T]) -> T | None:
    """Return `compute()`, cached for `key` until `call_of` ends; None outside it."""
    call = _current.get()
    if call is None:
        return None
    found: dict[int, tuple[Tensor, T]] = call.results.setdefault(name, {})
    if id(key) not in found:
        found[id(key)] = key, compute()
    return found[id(key)][1]


class WeightProducts(NamedTuple):
    """What a GNN-AK layer with MLPs before its pools computes from its weights alone.

    The Linear `project` maps the states s of the base GNN to P s + b. The first Linears
    of all MLPs have no bias. Their stacked weights are W, [c', c]. One joint Linear
    replaces `project` and all these first Linears: W (P s + b) = (W P) s + W b.
    """

    matrix: Tensor
    """[c', w]: the joint Linear's weight, W P, or W if `project` is the identity."""
    offset: Tensor | None
    """[c']: the joint Linear's bias, W b, or None if `project` is the identity."""
    gates: dict[str, Tensor]
    """Maps encodings to their gates for each distance, [t, c], or to `logit_tables`.
    The gates of the centroid encoding are missing if they are multiplied into the field
    `centroid`."""
    centroid: Tensor | None
    """[c, w + 4]: the matrix [P, b, b, b, b]. It maps the state s of a root, with
    `BIAS_COLUMN` appended, to the root's centroid encoding. If the gate of the centroid
    encoding depends on the distance alone, row i is multiplied by the gate's factor for
    channel i. None if `project` is the identity."""


def weight_products(layer: GNNAK) -> WeightProducts:
    """Return the `WeightProducts` of one layer.

    In a call of a whole model, the products of all its layers with equal shapes are
    computed at once, unless activation checkpointing is used.
    """
    call = _current.get()
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if call is None or hooks is not None:
        return _compute([layer])[0]
    autocast = torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")
    key = (torch.is_grad_enabled(), autocast)
    found: dict[GNNAK, WeightProducts] = call.results.setdefault(key, {})
    if layer not in found:
        if layer not in call.layers:
            return _compute([layer])[0]
        mine = _shapes(layer)
        alike = [one for one in call.layers if _shapes(one) == mine]
        found |= zip(alike, _compute(alike), strict=True)
    return found[layer]


def _shapes(layer: GNNAK) -> Hashable:
    """Return a key that is equal for layers whose weights can be stacked."""
    encoders = layer.hop_table, layer.pair_linears
    parts = (*encoders, layer.gates, layer.project, layer.transforms)
    weights = [w for part in parts if part is not None for w in part.parameters()]
    sizes = tuple((w.shape, w.dtype, w.device) for w in weights)
    names = layer.encodings, tuple(layer.gates), layer.pair_encodings
    return names, type(layer.project), sizes


def _compute(layers: Sequence[GNNAK]) -> list[WeightProducts]:
    weight = next(layers[0].parameters())
    dtype = autocast_dtype(weight) or weight.dtype
    with torch.autocast(weight.device.type, enabled=False):
        return _products(layers, dtype)


def _products(layers: Sequence[GNNAK], dtype: torch.dtype) -> list[WeightProducts]:
    count, one = len(layers), layers[0]
    names = [name for name in one.encodings if name in one.transforms]
    firsts = [
        blocks_of(layer.transforms[name])[0].linear.weight
        for layer in layers
        for name in names
    ]
    matrix = torch.cat(firsts).view(count, -1, firsts[0].size(1))
    tables = _gate_tables(layers)
    if not isinstance(one.project, nn.Linear):
        bare = zip(matrix.to(dtype).unbind(), _per_layer(tables, count), strict=True)
        return [WeightProducts(matrix, None, gates, None) for matrix, gates in bare]
    projects = [cast(nn.Linear, layer.project) for layer in layers]
    weight = torch.stack([project.weight for project in projects])
    bias = torch.stack([project.bias for project in projects])[:, :, None]
    joint, offset = torch.bmm(matrix, weight), torch.bmm(matrix, bias)
    # Repeat the bias for each entry of `BIAS_COLUMN`; only the first is not zero, so
    # the other repeats have no effect.
    centroid = torch.cat([weight, bias.expand(-1, -1, len(BIAS_COLUMN))], dim=2)
    if "centroid" in tables and one.pair_linears is None:
        centroid = centroid * tables.pop("centroid")[:, 0, :, None]
    gates = _per_layer(tables, count)
    joint, offset = joint.to(dtype), offset[:, :, 0].to(dtype)
    parts = (joint.unbind(), offset.unbind(), gates, centroid.unbind())
    return [WeightProducts(*part) for part in zip(*parts, strict=True)]


def _per_layer(tables: dict[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    parts = {name: of_all.unbind() for name, of_all in tables.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(count)]


ALIGNED = 8
"""The number of coefficients per node copy is divisible by this. Fast matrix products
need rows that are aligned to 16 bytes."""


def encoding_table(layer: GNNAK) -> Tensor | None:
    """Return the table of which the rows, or sums of rows, are d, [t, h], or None."""
    first = None if layer.hop_table is None else layer.hop_table.weight
    if layer.pair_linears is None:
        return first
    linears = layer.pair_linears.linears.values()
    pairs = [cast(nn.Linear, linear).weight.t() for linear in linears]
    zeros = pairs[0].new_zeros(1, pairs[0].size(1))
    table = torch.cat([zeros if first is None else first, *pairs])
    return pad(table, (0, 0, 0, -len(table) % ALIGNED))


def encoding_rows(
    layer: GNNAK, subgraphs: RootedSubgraphs, dtype: torch.dtype
) -> Tensor:
    """Return the row numbers or the coefficients that give d from `encoding_table`.

    If d is the distance alone, return row numbers, [m]: d = table[rows]. Otherwise,
    return coefficients, [m, t], in the given dtype: d = rows @ table. The coefficients
    are a one-hot vector of the distance (or a 1), then the other encodings of pairs,
    then zeros.
    """
    table, pairs = layer.hop_table, layer.pair_linears
    if pairs is None:
        return subgraphs.hop if table is None else table.rows(subgraphs)
    size, like = _num_distances(layer), next(pairs.parameters())

    def compute() -> Tensor:
        hop = subgraphs.hop
        hop = torch.zeros_like(hop) if table is None else table.rows(subgraphs)
        first = hop[:, None] == torch.arange(size, device=hop.device)
        others = [pairs.rows(each, subgraphs, like) for each in pairs.encodings]
        found = torch.cat([first.to(like.dtype), *others], dim=1)
        return pad(found, (0, -found.size(1) % ALIGNED)).to(dtype)

    key = pairs.encodings, size, dtype
    return subgraphs.once(Tensor, compute, *key, saved=False)


def _num_distances(layer: GNNAK) -> int:
    return 1 if layer.hop_table is None else len(layer.hop_table.weight)


def logit_tables(layer: GNNAK) -> dict[str, Tensor]:
    """Return a table for each encoding, [t, c]; its gates are `sigmoid(rows @ table)`.

    `rows` are the coefficients that `encoding_rows` returns.
    """
    with torch.autocast(next(layer.parameters()).device.type, enabled=False):
        return _per_layer(_gate_tables([layer]), 1)[0]


def _gate_tables(layers: Sequence[GNNAK]) -> dict[str, Tensor]:
    """Compute the gates, or `logit_tables`, of all layers, stacked, [layers, t, c]."""
    found = map(encoding_table, layers)
    tables: list[Tensor] = [table for table in found if table is not None]
    linears = [
        cast(HopGate, gate).linear for layer in layers for gate in layer.gates.values()
    ]
    if not tables or not linears:
        return {}
    each = len(linears) // len(tables)
    table = torch.stack(tables).repeat_interleave(each, dim=0)
    matrix = torch.stack([linear.weight for linear in linears])
    offset = torch.stack([linear.bias for linear in linears])[:, :, None]
    pairs, first = layers[0].pair_linears is not None, _num_distances(layers[0])
    if pairs:
        # One of the coefficients of the first rows is 1, so add the bias there only.
        offset = pad(offset.expand(-1, -1, first), (0, table.size(1) - first))
    # With the weights as the left factor, the gradients of the weights are contiguous.
    values = torch.baddbmm(offset, matrix, table.transpose(1, 2)).transpose(1, 2)
    values = values.contiguous() if pairs else torch.sigmoid(values.contiguous())
    values = values.unflatten(0, (len(tables), each))
    return dict(zip(layers[0].gates, values.unbind(1), strict=True))
