"""`infer`: the outputs of all nodes of one graph, exactly, in bounded memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from gnnak.errors import GraphError, OptionError, kind_of
from gnnak.graphs.ragged import chunk_cuts, counts_of
from gnnak.loading.large_graph import read_seeds
from gnnak.loop.calling import call_model
from gnnak.models.network import Network
from gnnak.nn.calling.call import first_weight
from gnnak.nn.uplift import GNNAK
from gnnak.nn.uplifted_conv import LazyUpliftedConv, UpliftedConv
from gnnak.subgraphs.attached import attach
from gnnak.subgraphs.extractors import Extractor, are_equal
from gnnak.subgraphs.streamed import can_stream, streamed
from gnnak.typing import check_count

MAX_COPIES = 1 << 18
"""Default number of node copies or messages that a layer computes at a time."""


def infer(
    model: nn.Module,
    data: Data,
    nodes: Tensor | Sequence[int] | None = None,
    *,
    max_copies: int = MAX_COPIES,
    call: Callable[[nn.Module, Data], Any] | None = None,
) -> Tensor:
    """Compute the outputs of all nodes of one large graph, in bounded memory.

    The outputs are those of `model.eval()` on the whole graph, up to rounding; no
    neighbours are sampled. The model runs layer by layer. A GNN-AK layer extracts
    and encodes the rooted subgraphs of a few roots at a time, and a PyG conv computes
    the messages to a few nodes at a time. So memory grows with the number of nodes and
    edges, but not with the number of node copies, nor with the number of edges times
    the number of channels. Gradients are not computed, and `model` is not changed.

    For random walks, for extractors without the argument `roots`, and for subgraph GNNs
    other than GNN-AK, all rooted subgraphs are in memory at the same time.

    Args:
        model: A plain or uplifted model, or a network of `build_model`.
        data: The graph; it is moved to the device of the model.
        nodes: The nodes whose outputs are wanted, as a mask, [n], or as numbers. If
            None, the outputs of all nodes are returned.
        max_copies: About this many node copies of a GNN-AK layer, or messages of a PyG
            conv, are computed at a time. A single subgraph may have more.
        call: A function `call(model, data)` that calls the model and returns its
            outputs. Needed only if the model takes arguments that are not in `data`.

    Returns:
        The outputs of the wanted nodes, one row per node, on the device of the model.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.stack([torch.arange(6), torch.arange(1, 7) % 6])
    >>> data = Data(x=torch.rand(6, 8), edge_index=ring)
    >>> infer(GCN(8, 16, num_layers=2, out_channels=3), data, nodes=[0, 5]).shape
    torch.Size([2, 3])
    """
    check_count("max_copies", max_copies, least=1)
    if not isinstance(data, Data) or data.edge_index is None:
        raise GraphError(
            f"data is {kind_of(data)} without edge_index; give one PyG Data with "
            "edge_index."
        )
    size = int(data.num_nodes or 0)
    rows = None if nodes is None else read_seeds(nodes, size, "nodes")[0]
    model = copy.deepcopy(model).eval()
    weight = first_weight(model)
    device = data.edge_index.device if weight is None else weight.device
    # The edges are copied, since subgraphs are attached to the tensor.
    graph = copy.copy(data).to(device)
    graph.edge_index = graph.edge_index.clone()
    for conv in plain_convs(model):
        conv.propagate = SlicedPropagate(conv, max_copies)
    extractor = stream_extractor(model)
    if extractor is not None:
        found = streamed(extractor, graph.edge_index, size, max_copies)
        attach(graph.edge_index, found, extractor, None)
    with torch.no_grad():
        outputs = (call or call_model)(model, graph)
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != (size,):
        shape = list(outputs.shape) if isinstance(outputs, Tensor) else ""
        raise OptionError(
            f"the model returns {kind_of(outputs)} {shape}, but infer needs one row "
            f"for each of the {size} nodes; return outputs of nodes, or give call=."
        )
    return outputs if rows is None else outputs[rows.to(outputs.device)]


def stream_extractor(model: nn.Module) -> Extractor | None:
    """Return a model's extractor if its rooted subgraphs can be streamed, else None."""
    found: list[Extractor] = []
    for module in model.modules():
        if isinstance(module, Network) and module.extractor is not None:
            found.append(module.extractor)
            if not any(isinstance(each, GNNAK) for each in module.modules()):
                return None
        elif isinstance(module, UpliftedConv | LazyUpliftedConv):
            found.append(module.shared.subgraphs.extractor)
    if not found or not all(are_equal(each, found[0]) for each in found):
        return None
    return found[0] if can_stream(found[0]) else None


def plain_convs(module: nn.Module) -> Iterator[MessagePassing]:
    """Yield the PyG convs that run on the whole graph, not on rooted subgraphs."""
    if isinstance(module, GNNAK | LazyUpliftedConv):
        return
    if isinstance(module, MessagePassing):
        yield module
    for child in module.children():
        yield from plain_convs(child)


class SlicedPropagate:
    """Replaces a conv's `propagate`: computes all messages to a few nodes at a time."""

    def __init__(self, conv: MessagePassing, most: int) -> None:
        self.original, self.most = conv.propagate, most
        self.target = 1 if conv.flow == "source_to_target" else 0
        self.node_dim = conv.node_dim
        # Arguments with a row per node are read as `x_i` and `x_j`, others as they are.
        read = conv.inspector.get_flat_param_names(["message", "aggregate"])
        self.per_edge = set(read)

    def __call__(self, edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        whole = not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided
        if whole or edge_index.size(1) <= self.most:
            return self.original(edge_index, size=size, **given)
        target = edge_index[self.target]
        order = torch.argsort(target, stable=True)
        degree = counts_of(target, int(target.max()) + 1)
        end = degree.cumsum(0)
        cuts = sorted({0, degree.numel(), *chunk_cuts(degree, self.most)})
        found = None
        for first, stop in pairwise(cuts):
            begin = int(end[first - 1]) if first else 0
            edges = order[begin : int(end[stop - 1])]
            part = {name: self._of(name, v, edges, order) for name, v in given.items()}
            out = self.original(edge_index[:, edges], size=size, **part)
            if found is None:
                found = out
            else:
                rows = slice(first, stop)
                self._rows(found, rows).copy_(self._rows(out, rows))
        assert found is not None
        rest = slice(degree.numel(), None)
        self._rows(found, rest).copy_(self._rows(out, rest))
        return found

    def _of(self, name: str, value: Any, edges: Tensor, every: Tensor) -> Any:
        """Return the rows `edges` of `value` if it has a row per edge, else `value`."""
        if name not in self.per_edge or not isinstance(value, Tensor):
            return value
        dim = self.node_dim if value.dim() >= abs(self.node_dim) else 0
        per_edge = value.dim() > 0 and value.size(dim) == len(every)
        return value.index_select(dim, edges) if per_edge else value

    def _rows(self, values: Tensor, rows: slice) -> Tensor:
        return values.movedim(self.node_dim, 0)[rows]
