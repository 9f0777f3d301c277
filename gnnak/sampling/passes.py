"""Where forward passes begin and end, and what belongs to one of them.

The layers of a model share their rooted subgraphs within a forward pass. This state is
stored per thread, so that a model can be called in several threads at once.
"""

import threading

from torch import Tensor

from gnnak.sampling.graph_cache import CachedGraph, GraphCache
from gnnak.sampling.replay import backward_task
from gnnak.subgraphs.rooted import RootedSubgraphs


class ThreadState(threading.local):
    """The cache and the current forward pass of one thread.

    Attributes:
        cache: The graph that was used last.
        in_model: Whether a call of the model is in progress.
        given: The subgraphs that the caller handed to the model; usually None.
        layers: The ids of the layers that were called in this forward pass.
        task: The backward pass that this forward pass runs in; usually None.
        compared: Whether edges were compared with the cache in this forward pass.
        is_over: Whether this forward pass was a call of the model that has ended.
    """

    def __init__(self) -> None:
        self.cache = GraphCache()
        self.in_model = False
        self.given: RootedSubgraphs | None = None
        self.start_pass()

    def start_pass(self) -> None:
        """Discard what belongs to the previous forward pass."""
        self.task = backward_task()
        self.compared = False
        self.layers: set[int] = set()
        self.is_over = False
        self.cache.discard_sample()

    def enter_model(self) -> None:
        """Begin a call of the model: its layers share one cached graph."""
        self.in_model = True
        self.cache.hold()

    def leave_model(self) -> None:
        """End a call of the model."""
        self.in_model = False
        self.is_over = True
        self.cache.release()

    def graph(self, edge_index: Tensor, num_nodes: int) -> CachedGraph:
        """Return the cached graph with these edges; see `GraphCache.get`."""
        graph = self.cache.get(edge_index, num_nodes, self.compared)
        self.compared = self.in_model and not self.is_recomputing
        return graph

    @property
    def is_recomputing(self) -> bool:
        """Whether the current call of a layer is a recomputation.

        Activation checkpointing calls layers again in the backward pass. If it calls
        the whole model again, this is a forward pass like any other.
        """
        task = backward_task()
        return task is not None and not (self.in_model and self.task == task)
