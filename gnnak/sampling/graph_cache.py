"""Cache what is computed from a graph, until the content of `edge_index` changes."""

import weakref
from functools import cached_property

import torch
from torch import Tensor

from gnnak.sampling.plan import Plan
from gnnak.sampling.replay import Sample
from gnnak.subgraphs.rooted import RootedSubgraphs


class CachedGraph:
    """A copy of one graph's edges, and what was computed from these edges.

    Args:
        edge_index: The graph's edges, [2, e].
        num_nodes: Number of nodes, n.

    Attributes:
        batch: Index of the graph that each node is in, [n]; None if it was not set.
        full: All rooted subgraphs of the graph; None if they are not computed yet.
        plan: What SubgraphDrop precomputes for `full`; None if it is not computed yet.
        sampled: The random subgraphs of the current forward pass; None if there are
            none yet.
        sample: How `sampled` can be sampled again; None if there is no sample.
        replayed: The random subgraphs of the layer that was recomputed last; None if
            there are none. The other layers of the same forward pass use them, too.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.batch: Tensor | None = None
        self.full: RootedSubgraphs | None = None
        self.plan: Plan | None = None
        self.discard_sample()
        self._edges = edge_index.detach().clone()
        self._tensor = weakref.ref(edge_index)
        self._version = _version(edge_index)

    def discard_sample(self) -> None:
        """Release the random subgraphs of the current forward pass."""
        self.sampled: RootedSubgraphs | None = None
        self.sample: Sample | None = None
        self.replayed: RootedSubgraphs | None = None

    @cached_property
    def fingerprint(self) -> int:
        """A hash of the edges and the number of nodes."""
        edges = self._edges.cpu().contiguous()
        return hash((edges.numpy().tobytes(), edges.shape, self.num_nodes))

    def set_batch(self, batch: Tensor | None) -> None:
        """Set the graph of each node; if it has changed, discard all subgraphs.

        Args:
            batch: Index of the graph that each node is in, [n]; None = all nodes are
                in one graph.
        """
        old = self.batch
        if batch is old:
            return
        if batch is None or old is None or not torch.equal(batch, old):
            self.full, self.plan = None, None
            self.discard_sample()
        self.batch = None if batch is None else batch.detach().clone()

    def equals(self, edge_index: Tensor, num_nodes: int) -> bool:
        """Return whether this is the graph with these edges and nodes.

        The edges are compared number by number, because PyTorch does not count every
        write to a tensor: writes in inference mode, through `.data`, NumPy or DLPack
        leave no trace. On a GPU, the comparison synchronises.
        """
        edges = self._edges
        return (
            num_nodes == self.num_nodes
            and edge_index.device == edges.device
            and edge_index.dtype == edges.dtype
            and torch.equal(edge_index, edges)
        )

    def seems_equal(self, edge_index: Tensor, num_nodes: int) -> bool:
        """Return whether this is the graph of this tensor object, as far as is known.

        The edges are not compared, so writes that PyTorch does not count go unnoticed.
        """
        same = self._tensor() is edge_index and self._version == _version(edge_index)
        return same and num_nodes == self.num_nodes

    @property
    def counts_writes(self) -> bool:
        """Whether PyTorch counts writes to the tensor that the graph was made from.

        PyTorch counts none of the writes to a tensor that was made in inference mode.
        """
        return self._version is not None


class GraphCache:
    """Holds the `CachedGraph` that was used last.

    The cached graph is released when the `edge_index` tensor that it was made from is
    freed. Between `hold` and `release`, it is kept until `release`.
    """

    def __init__(self) -> None:
        self._held = False
        self.clear()

    def clear(self) -> None:
        """Empty the cache."""
        self._graph: CachedGraph | None = None
        self._owner: weakref.ref[Tensor] | None = None

    def hold(self) -> None:
        """Keep the cached graph until `release`, even if its tensor is freed."""
        self._held = True

    def release(self) -> None:
        """End `hold`: release the cached graph if its tensor was freed meanwhile."""
        self._held = False
        if self._owner is not None and self._owner() is None:
            self.clear()

    def discard_sample(self) -> None:
        """Release the random subgraphs of the cached graph, if there is one."""
        if self._graph is not None:
            self._graph.discard_sample()

    def get(self, edge_index: Tensor, num_nodes: int, compared: bool) -> CachedGraph:
        """Return the cached graph with these edges; if there is none, cache a new one.

        Args:
            edge_index: The graph's edges, [2, e].
            num_nodes: Number of nodes, n.
            compared: Whether edges were already compared in this forward pass. If so,
                those of the same tensor are not compared again on a GPU, where a
                comparison synchronises, unless the tensor was made in inference mode.
                While a CUDA graph is captured, the edges of the same tensor are never
                compared.
        """
        graph = self._graph
        if graph is not None:
            capturing = edge_index.is_cuda and torch.cuda.is_current_stream_capturing()
            known = compared and graph.counts_writes
            trusted = capturing or (known and edge_index.is_cuda)
            if trusted and graph.seems_equal(edge_index, num_nodes):
                return graph
            if not capturing and graph.equals(edge_index, num_nodes):
                return graph
        graph = CachedGraph(edge_index, num_nodes)
        self._graph = graph
        self._owner = weakref.ref(edge_index, self._clear_if_current)
        return graph

    def _clear_if_current(self, dead: "weakref.ref[Tensor]") -> None:
        if self._owner is dead and not self._held:
            self.clear()


def _version(tensor: Tensor) -> int | None:
    """Return the number of counted writes to a tensor; None if none are counted."""
    return None if tensor.is_inference() else tensor._version
