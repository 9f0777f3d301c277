"""GNN-AK layers on a CPU, which compute equal states and messages only once.

Before message passing, copies of a node at equal distance from their roots have equal
states. So states are computed once per pair (node, distance), and messages once per
pair (edge, distance of the edge's source).

In shapes, u counts the distinct pairs (node, distance), t counts distances, and w is
the width of the states that the base GNN gets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn import GINEConv

from gnnak.distributed import several_processes
from gnnak.fast.layers.convs import can_run
from gnnak.fast.layers.general import gate_tables, reduced
from gnnak.fast.layers.parts import REDUCES, blocks_of, has_hooks
from gnnak.nn.base.stack import Stack
from gnnak.nn.calling import Inputs, lift_inputs
from gnnak.nn.calling.call import explained_convs
from gnnak.nn.encodings import HopTable
from gnnak.nn.norm import BatchNorm
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.groups import group
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class Ones(NamedTuple):
    """The positions of the ones in a sparse matrix of zeros and ones, row by row."""

    columns: Tensor
    """[q]: the column of each of the q ones, sorted by row."""
    ptr: Tensor | None = None
    """[r + 1]: where each row begins in `columns`; None if each row has one 1."""

    @property
    def num_rows(self) -> int:
        return (self.columns if self.ptr is None else self.ptr[1:]).numel()


@dataclass(frozen=True, eq=False)
class Incidence:
    """A sparse matrix of zeros and ones, [rows, columns], and its transpose."""

    ones: Ones
    transposed: Ones

    def __matmul__(self, values: Tensor) -> Tensor:
        """Multiply this matrix by `values`, [columns, c]; return [rows, c]."""
        return _Product.apply(values, self)

    @property
    def T(self) -> Incidence:  # noqa: N802 (as in PyTorch)
        return Incidence(self.transposed, self.ones)


def gather_matrix(index: Tensor, size: int, in_order: bool = False) -> Incidence:
    """Return the matrix with `size` columns whose product with x is `x[index]`."""
    groups = group(index, size, in_order)
    order = groups.order
    if order is None:
        order = torch.arange(index.numel(), device=index.device)
    return Incidence(Ones(index), Ones(order, groups.ptr))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, matrix: Incidence) -> Tensor:
        columns, ptr = matrix.ones
        if ptr is None:
            return values.index_select(0, columns)
        if not columns.numel():
            return values.new_zeros(matrix.ones.num_rows, values.size(1))
        return torch.embedding_bag(
            values.contiguous(), columns, ptr, include_last_offset=True
        )[0]

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Incidence], output: Tensor
    ) -> None:
        ctx.matrix = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.T @ grad, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return ctx.matrix @ tangent

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], values: Tensor, matrix: Incidence
    ) -> tuple[Tensor, int]:
        # Treat the batch of b matrices [k, c] as one matrix [k, c b].
        assert in_dims[0] is not None
        rows = values.movedim(in_dims[0], -1)
        product = matrix @ rows.flatten(1)
        return product.view(matrix.ones.num_rows, *rows.shape[1:]), 2


PairAxis = Literal["node", "subgraph"]
"""The first element of the pairs in `HopPairs`: a node or a rooted subgraph."""


class HopPairs(NamedTuple):
    """The distinct pairs (node, hop) or (subgraph, hop), sorted; u is their number."""

    of_copies: Incidence
    """[m, u]: the 1 in row i marks the pair of node copy i."""
    of_keys: Incidence
    """[u, n] or [u, s]: the 1 in row i marks the node or the subgraph of pair i."""
    one_hot: Tensor
    """[u, t], dense: the 1 in row i marks the hop-table row of pair i."""


def numbered(key: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Compute `key.unique(return_inverse=True)` without sorting; key is in 0..size-1.

    >>> numbered(torch.tensor([7, 2, 7, 4]), 9)
    (tensor([2, 4, 7]), tensor([2, 0, 2, 1]))
    """
    occurs = torch.zeros(size, dtype=torch.bool, device=key.device)
    occurs[key] = True
    return occurs.nonzero().flatten(), (occurs.cumsum(0) - 1)[key]


def hop_pairs(
    hops: HopTable | None,
    subgraphs: RootedSubgraphs,
    axis: PairAxis,
    dtype: torch.dtype,
) -> HopPairs:
    """Find the `HopPairs` of a batch. If `hops` is None, all distances count as 0."""
    num_hops = 1 if hops is None else len(hops.weight)
    by_node = axis == "node"
    key = subgraphs.node if by_node else subgraphs.subgraph
    size = subgraphs.known_num_nodes if by_node else subgraphs.num_subgraphs

    def find() -> HopPairs:
        pair = key if hops is None else key * num_hops + hops.rows(subgraphs)
        distinct, number = numbered(pair, size * num_hops)
        keys = gather_matrix(distinct // num_hops, size, in_order=True)
        columns = torch.arange(num_hops, device=key.device)
        one_hot = (distinct.remainder(num_hops)[:, None] == columns).to(dtype)
        copies = gather_matrix(number, distinct.numel())
        return HopPairs(copies, keys, one_hot)

    return subgraphs.once(HopPairs, find, axis, num_hops, dtype)


class Messages(NamedTuple):
    """The v distinct messages: one per pair (edge, distance from source to root)."""

    source: Incidence
    """[v, u]: the 1 in row i marks message i's sender, of u pairs (node, distance)."""
    edge: Incidence
    """[v, e]: the 1 in row i marks the edge of message i."""
    into: Incidence
    """[m, v + u], for u pairs (node, distance). In row i, ones in the first v columns
    mark the messages to node copy i. The 1 in the last u columns marks its pair."""


def pair_states(layer: GNNAK, x: Tensor, pairs: HopPairs) -> Tensor:
    """Return the base GNN's input for each of the u pairs (node, distance), [u, w]."""
    h = pairs.of_keys @ x
    if layer.hop_table is None:
        return h
    d = layer.hop_table.weight
    if layer.hop_linear is not None:
        return h + pairs.one_hot @ layer.hop_linear(d)
    return torch.cat([h, pairs.one_hot @ d], dim=1)


def find_messages(subgraphs: RootedSubgraphs, pairs: HopPairs) -> Messages:
    num_pairs, num_hops = pairs.one_hot.shape

    def find() -> Messages:
        source, num_edges = subgraphs.edge_index[0], subgraphs.num_edges
        assert num_edges is not None
        sender = pairs.of_copies.ones.columns.index_select(0, source)
        hop = pairs.one_hot.argmax(dim=1).index_select(0, sender)
        key = subgraphs.edge * num_hops + hop
        distinct, number = numbered(key, num_edges * num_hops)
        senders = torch.empty_like(distinct)
        senders[number] = sender  # Equal numbers have equal senders.
        return Messages(
            gather_matrix(senders, num_pairs),
            gather_matrix(distinct // num_hops, num_edges, in_order=True),
            _received(subgraphs, number, distinct.numel(), pairs),
        )

    return subgraphs.once(Messages, find, num_hops)


def _received(
    subgraphs: RootedSubgraphs, number: Tensor, count: int, pairs: HopPairs
) -> Incidence:
    """Build the matrix `Messages.into`; the message of edge copy i is `number[i]`."""
    target, own = subgraphs.edge_index[1], pairs.of_copies.ones.columns
    # Edge copies are sorted by target. The state of a node copy itself comes after the
    # messages to this node copy, at the position `ptr[1:]` of the merged list.
    ptr = subgraphs.by("target").ptr
    ptr = ptr + torch.arange(ptr.numel())
    columns = target.new_empty(target.numel() + own.numel())
    columns[torch.arange(target.numel()) + target] = number
    columns[ptr[1:] - 1] = own + count
    by_message, by_pair = group(number, count), pairs.of_copies.transposed
    assert by_message.order is not None
    assert by_pair.ptr is not None
    rows = [target.index_select(0, by_message.order), by_pair.columns]
    ends = torch.cat([by_message.ptr, by_pair.ptr[1:] + target.numel()])
    return Incidence(Ones(columns, ptr), Ones(torch.cat(rows), ends))


NORMS = (nn.BatchNorm1d, BatchNorm)
"""Norms whose output a ReLU may overwrite: their backward pass does not read it."""


def cpu_encodings(
    min_copies: int,
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    """Compute `GNNAK.encode`; not implemented below `min_copies` node copies."""
    # Several processes must make the same choice: see `_can_run`.
    if subgraphs.num_copies < min_copies and not several_processes():
        return NotImplemented
    if not {layer.reduce, context_reduce} <= set(REDUCES):
        return NotImplemented
    if not _can_run(layer, x, subgraphs, edge_attr):
        return NotImplemented
    rows, linears = run_base(layer, x, subgraphs, edge_attr)
    drops = layer.dropout.training and layer.dropout.p > 0
    if not layer.transforms or drops:
        rows, linears = run_modules(linears, rows), []
    encodings: dict[Encoding, Tensor] = {}
    gates = gate_tables(layer)
    for name in layer.encodings:
        gate = gates.get(name)
        if name == "centroid":
            states = run_modules(linears, rows.index_select(0, subgraphs.centroid))
            encodings[name] = states if gate is None else states * gate[0]
            continue
        states = _transformed(layer, name, rows, linears)
        axis: PairAxis = "node" if name == "context" else "subgraph"
        pairs = hop_pairs(layer.hop_table, subgraphs, axis, states.dtype)
        sums = pairs.of_copies.T @ states
        sums = sums if gate is None else sums * (pairs.one_hot @ gate)
        encodings[name] = pairs.of_keys.T @ sums
    return reduced(layer, encodings, subgraphs, context_reduce)


def run_base(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> tuple[Tensor, list[nn.Linear]]:
    """Run the base GNN except the last Linears; return its states and these Linears."""
    gnn = layer.gnn
    last = [layer.project] if type(layer.project) is nn.Linear else []
    conv = gnn.convs[0] if type(gnn) is Stack and gnn.num_layers == 1 else gnn
    if not isinstance(edge_attr, Tensor) or not _fits(layer, conv, edge_attr):
        h, e = layer.augment(x, subgraphs), lift_inputs(edge_attr, subgraphs)
        edge_index, batch = subgraphs.edge_index, subgraphs.subgraph
        return layer.calling(gnn, h, edge_index, e, batch), last
    assert isinstance(conv, GINEConv)
    pairs = hop_pairs(layer.hop_table, subgraphs, "node", x.dtype)
    c = pair_states(layer, x, pairs)
    e = edge_attr if conv.lin is None else conv.lin(edge_attr)
    messages = find_messages(subgraphs, pairs)
    sent = (messages.source @ c + messages.edge @ e).relu_()
    # For each node copy: (1 + eps) c_i + sum of ReLU(c_j + e_ji), [m, w].
    summed = messages.into @ torch.cat([sent, (1 + conv.eps) * c])
    parts = list(conv.nn) if type(conv.nn) is nn.Sequential else [conv.nn]
    if type(gnn) is Stack:
        out = run_modules([*parts, gnn.norms[0], *gnn.after], summed)
        return pairs.of_copies @ c + out, last
    end = parts[-1]
    if type(end) is nn.Linear:
        parts, last = parts[:-1], [end, *last]
    return run_modules(parts, summed), last


def run_modules(modules: Iterable[nn.Module], rows: Tensor) -> Tensor:
    """Call modules in sequence; a ReLU directly after a batch norm works in place."""
    before = None
    for module in modules:
        if type(module) is nn.Sequential:
            rows = run_modules(module, rows)
        elif type(module) is nn.ReLU and type(before) in NORMS:
            rows = rows.relu_()
        else:
            rows = module(rows)
        before = module
    return rows


def _fits(layer: GNNAK, conv: nn.Module, e: Tensor) -> bool:
    width = layer.in_channels
    if layer.hop_table is not None and layer.hop_linear is None:
        width += layer.hop_table.weight.size(1)
    keywords = layer.calling.keywords is not None
    return type(conv) is GINEConv and not keywords and can_run(conv, e, width)


def _can_run(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> bool:
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return False
    weights = {weight.dtype for weight in layer.parameters()}
    values = edge_attr if isinstance(edge_attr, Tensor) else x
    exact = weights <= {x.dtype} and x.dtype in (torch.float, torch.double)
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    # The gradient of an offset before a norm is zero in all processes together only, so
    # that either all of them leave it out, or none.
    several = several_processes() or subgraphs.num_copies > 1
    full = subgraphs.real is None and several
    return (
        exact and values.dtype == x.dtype and known and full and _has_known_parts(layer)
    )


def _has_known_parts(layer: GNNAK) -> bool:
    transforms = list(layer.transforms.values())
    blocks = [block for transform in transforms for block in transform.children()]
    types = [tuple(map(type, block.children())) for block in blocks]
    return (
        type(layer) is GNNAK
        and layer.pair_linears is None
        and type(layer.project) in (nn.Linear, nn.Identity)
        and all(type(part) is nn.Sequential for part in transforms + blocks)
        and all(found == (nn.Linear, BatchNorm, nn.ReLU) for found in types)
        and not explained_convs(layer.gnn)
        and not any(has_hooks(part) for part in layer.modules() if part is not layer)
    )


def _transformed(
    layer: GNNAK, name: Encoding, rows: Tensor, linears: list[nn.Linear]
) -> Tensor:
    """Apply `linears`, then the encoding's MLP; without an MLP, return `rows`."""
    if name not in layer.transforms:
        return rows
    rows = layer.dropout(rows)
    first, *others = blocks_of(layer.transforms[name])
    matrix, offset = first.linear.weight, None
    for part in reversed(linears):
        if part.bias is not None:
            added = matrix @ part.bias
            offset = added if offset is None else offset + added
        matrix = matrix @ part.weight
    if offset is not None and first.norm.training and "centroid" in layer.encodings:
        # The norm subtracts the mean, so the gradient of the offset is zero and need
        # not be computed. Without a centroid encoding, the offset is the only use of
        # the bias, and the gradient of the bias must not be None.
        offset = offset.detach()
    states = first.norm(linear(rows, matrix, offset)).relu_()
    for block in others:
        states = block.norm(block.linear(states)).relu_()
    return states
