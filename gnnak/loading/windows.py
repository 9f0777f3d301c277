"""Windows: several consecutive batches that are assembled together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.graphs.real import BATCH_AXES
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.rooted import RootedSubgraphs

AXES = (*BATCH_AXES, "fillings")
"""The axes of a window: "graphs", "nodes" and so on, and "fillings", the entries of the
sparse matrix `Filling` of SubgraphDrop. On each axis, the rows of a batch are
consecutive."""


@dataclass(frozen=True, eq=False)
class Window:
    """Several consecutive batches, assembled as one large batch."""

    batch: GraphBatch
    """The graphs of all batches, sorted by batch."""
    subgraphs: RootedSubgraphs | None
    """The rooted subgraphs, sorted by graph, or None if batches have no subgraphs."""
    node_targets: bool
    """Whether the targets `batch.y` have one row per node; if not, one per graph."""
    starts: dict[str, list[int]]
    """For each axis, such as "nodes": where the rows of each of the b batches start,
    and last the number of all rows. These are b + 1 numbers."""
    known: dict[str, int | bool]
    """`max_hop` (the largest distance of a node to its root) and `in_order` (whether
    subgraph i is rooted at node i for all i), over all subgraphs of the window."""
    extra: dict[str, tuple[str, Tensor]] = field(default_factory=dict)
    """Further fields. Maps a name to the axis of the rows, such as "nodes", and the
    rows of all batches."""

    @property
    def num_batches(self) -> int:
        return len(self.starts["graphs"]) - 1

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes on which this window has rows: fewer if it has no subgraphs."""
        if self.subgraphs is None:
            return AXES[:3]
        return AXES if isinstance(self.subgraphs, SampledSubgraphs) else BATCH_AXES

    def counts(self, axis: str) -> list[int]:
        return [end - begin for begin, end in pairwise(self.starts[axis])]


def make_window(
    batch: GraphBatch,
    subgraphs: RootedSubgraphs | None,
    sizes: Sequence[int],
    node_targets: bool = False,
    extra: Mapping[str, tuple[str, Tensor]] | None = None,
    counts: Tensor | None = None,
) -> Window:
    """Make a window from several batches that were assembled as one large batch.

    `sizes` has the number of graphs of each batch. `counts`, on the CPU, has the
    numbers of nodes and edges of each graph, [2, g], and with subgraphs also of node
    copies and edge copies, [4, g]. If `counts` is None, these numbers are read from the
    device, which synchronises. If it is given, subgraph i must be rooted at node i, and
    `subgraphs.max_hop` must be cached.
    """
    ends = [0, *accumulate(sizes)]
    extra = dict(extra or {})
    if counts is not None:
        starts = _starts(ends, counts)
        deepest = -1 if subgraphs is None else subgraphs.max_hop
        known = {"max_hop": deepest, "in_order": subgraphs is not None}
        return Window(batch, subgraphs, node_targets, starts, known, extra)
    if isinstance(subgraphs, SampledSubgraphs) and not subgraphs.filling.in_order:
        subgraphs = _sort_filling(batch, subgraphs, ends)
    starts, known = _read_starts(batch, subgraphs, ends)
    return Window(batch, subgraphs, node_targets, starts, known, extra)


def _starts(ends: list[int], counts: Tensor) -> dict[str, list[int]]:
    before = torch.nn.functional.pad(counts.cumsum(dim=1), (1, 0))
    nodes, edges, *copies = before[:, ends].tolist()
    zeros = [0] * len(ends)
    found = [ends, nodes, edges, nodes if copies else zeros, *(copies or (zeros,) * 2)]
    return dict(zip(AXES, [*found, zeros], strict=True))


def _sort_filling(
    batch: GraphBatch, subgraphs: SampledSubgraphs, ends: list[int]
) -> SampledSubgraphs:
    filling = subgraphs.filling
    number = torch.searchsorted(
        _on_device(ends, batch), batch.batch[filling.node], right=True
    )
    filling = filling.at(torch.argsort(number, stable=True))
    encodings = extracted_encodings(subgraphs)
    return replace(subgraphs, filling=filling).assume(encodings=encodings)


def _read_starts(
    batch: GraphBatch, subgraphs: RootedSubgraphs | None, ends: list[int]
) -> tuple[dict[str, list[int]], dict[str, int | bool]]:
    """Return the fields `starts` and `known` of a window, read from the device."""
    graphs = _on_device(ends, batch)
    first = {
        "graphs": graphs,
        "nodes": batch.ptr[graphs],
        "edges": torch.searchsorted(batch.batch[batch.edge_index[0]], graphs),
    } | dict.fromkeys(AXES[3:], torch.zeros_like(graphs))
    deepest, ordered = graphs.new_full((1,), -1), graphs.new_zeros(1)
    if subgraphs is not None:
        target = subgraphs.edge_index[1].contiguous()
        root = torch.searchsorted(batch.batch[subgraphs.root], graphs)
        copy = torch.searchsorted(subgraphs.subgraph, root)
        edge_copy = torch.searchsorted(target, copy)
        first |= {"subgraphs": root, "copies": copy, "edge_copies": edge_copy}
        if subgraphs.num_copies:
            deepest = subgraphs.hop.max()[None]
        sampled = isinstance(subgraphs, SampledSubgraphs)
        if not sampled and subgraphs.num_subgraphs == batch.num_nodes:
            nodes = torch.arange(batch.num_nodes, device=batch.device)
            ordered = (subgraphs.root == nodes).all().long()[None]
    if isinstance(subgraphs, SampledSubgraphs):
        graph = batch.batch[subgraphs.filling.node]
        first["fillings"] = torch.searchsorted(graph, graphs)
    *flat, max_hop, in_order = torch.cat([*first.values(), deepest, ordered]).tolist()
    rows = len(ends)
    starts = {
        axis: flat[index * rows : (index + 1) * rows]
        for index, axis in enumerate(first)
    }
    return starts, {"max_hop": max_hop, "in_order": bool(in_order)}


def _on_device(numbers: list[int], batch: GraphBatch) -> Tensor:
    host = torch.tensor(numbers, device="cpu")
    return host.to(batch.device, non_blocking=True)
