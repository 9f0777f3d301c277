"""Capture work as CUDA graphs that share their memory."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from gnnak.loading.prefetch import prefetching_paused
from gnnak.memory import graph_pools_changing, growth_measured

Work = Callable[[], Tensor]
HEADROOM = 1.05
"""Memory reserved for graphs, relative to the peak of an uncaptured step."""


class Recorder(Protocol):
    """Runs work and captures it."""

    def warm_up(self, work: Work) -> Tensor:
        """Run the work once, uncaptured, in the way it will be captured."""

    def record(self, work: Work) -> Work:
        """Capture the work without running it.

        Returns:
            A function that replays the work on the tensors it was captured with, and
            returns a new tensor.

        Raises:
            Exception: If the work cannot be captured; nothing is changed then.
        """

    def release(self) -> None:
        """Free the memory of everything captured; it must not be replayed again."""


class GraphRecorder:
    """Captures work as CUDA graphs in one memory pool.

    The graphs can share a pool because none reads what another one, or an earlier
    replay, left there: weights and optimiser states are allocated outside. Random
    numbers come from the device's generator, whose offset each replay advances as if
    the work had been called.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)
        self.index = self.stream.device_index
        self.device = torch.device("cuda", self.index)
        self.peak_bytes = 0
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.synchronisations: list[str] = []

    def warm_up(self, work: Work) -> Tensor:
        """Run the work on the stream that it will be captured on.

        Once there are graphs, it allocates in their pool, which holds nothing between
        replays but gradients that are not read again.
        """
        outside = torch.cuda.current_stream(self.index)
        self.stream.wait_stream(outside)
        allocation = self._in_pool() if self.graphs else growth_measured(self.device)
        with (
            torch.cuda.stream(self.stream),
            synchronisations_recorded() as self.synchronisations,
            allocation as growth,
        ):
            result = work()
        outside.wait_stream(self.stream)
        if growth is None:
            return result.clone()
        (self.peak_bytes,) = growth
        return result

    def record(self, work: Work) -> Work:
        """Capture the work as a graph; refuse if its last run synchronised."""
        if self.synchronisations:
            where = self.synchronisations[0]
            raise RuntimeError(f"a step synchronises with the device in {where}.")
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[self.index]
        outside = torch.cuda.current_stream(self.index)
        before = generator.clone_state()
        try:
            with (
                graph_pools_changing(self.device),
                torch.cuda.graph(
                    graph, self.pool, self.stream, capture_error_mode="thread_local"
                ),
            ):
                if not self.graphs:
                    self._reserve()
                result = work()
        except Exception:
            torch.cuda.set_stream(outside)
            self._leave_pool()
            generator.graphsafe_set_state(before)
            raise
        self.graphs.append(graph)

        def replay() -> Tensor:
            graph.replay()
            return result.clone()

        return replay

    def release(self) -> None:
        """Reset all graphs and start a new pool.

        PyTorch does not allow a capture in a pool whose graphs are all gone.
        """
        with graph_pools_changing(self.device):
            torch.cuda.synchronize(self.index)
            for graph in self.graphs:
                graph.reset()
            self.graphs.clear()
            self.pool = torch.cuda.graph_pool_handle()
            torch.cuda.empty_cache()

    def _reserve(self) -> None:
        """Allocate the memory of the first graph as one block, to avoid fragmentation.

        Allocated piece by piece, a tenth to a fourth of it was lost in gaps.
        """
        size = int(HEADROOM * self.peak_bytes)
        torch.empty(size, dtype=torch.uint8, device=self.device)

    @contextmanager
    def _in_pool(self) -> Iterator[None]:
        """Inside, this thread allocates in the pool of the graphs."""
        with graph_pools_changing(self.device):
            torch._C._cuda_beginAllocateCurrentThreadToPool(self.index, self.pool)
            try:
                yield
            finally:
                torch._C._cuda_endAllocateToPool(self.index, self.pool)
                torch._C._cuda_releasePool(self.index, self.pool)

    def _leave_pool(self) -> None:
        """End the allocation in the pool, which PyTorch does not after a failure."""
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(self.index, self.pool)
            torch._C._cuda_releasePool(self.index, self.pool)


@contextmanager
def synchronisations_recorded() -> Iterator[list[str]]:
    """Inside, record the source lines that synchronise with the device, in any thread.

    The thread that prefetches batches may synchronise: it is paused meanwhile.
    """
    places: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    with prefetching_paused(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for warning in warned:
        if "called a synchronizing CUDA operation" in str(warning.message):
            places.append(f"{Path(warning.filename).name}, line {warning.lineno}")
        elif "prototype feature" not in str(warning.message):
            warnings.warn(warning.message, warning.category, stacklevel=3)
