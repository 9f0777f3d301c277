"""Capture functions as CUDA graphs that share one memory pool."""

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
"""A function that launches GPU work and returns a tensor, such as the loss."""
HEADROOM = 1.05
"""Memory reserved for graphs, as a multiple of the peak of an uncaptured step."""


class Recorder(Protocol):
    """Interface to capture work; tests replace the recorder for CUDA graphs."""

    def warm_up(self, work: Work) -> Tensor:
        """Run the work once without capturing it, on the stream of later captures."""

    def record(self, work: Work) -> Work:
        """Capture the work without running it.

        Returns:
            A function that replays the work on the same tensors, and returns the result
            in a new tensor.

        Raises:
            Exception: If the work cannot be captured; the state is as before.
        """

    def release(self) -> None:
        """Free the memory of all captured work, which must not be replayed after."""


class GraphRecorder:
    """Captures work as CUDA graphs in one memory pool.

    The graphs can share a pool because none reads memory that another graph, or an
    earlier replay, has written: weights and optimiser states are allocated outside of
    the pool. Each replay advances the random state of the device like a call of the
    work.

    Args:
        device: A GPU.

    Attributes:
        peak_bytes: Growth of the allocated memory in the last warm-up outside of the
            pool, at its peak.
        synchronisations: Source lines that synchronised in the last warm-up.
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
        """Run the work on the stream of later captures.

        If there are graphs already, the work allocates in their pool. This is safe:
        between replays the pool contains only gradients that are not read again.
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
        """Capture the work as a CUDA graph; see `Recorder.record`.

        Raises:
            RuntimeError: If the work synchronised in its last warm-up.
            Exception: Other failures of the capture.
        """
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
        """Reset all graphs and create a new pool.

        PyTorch does not allow a capture in a pool whose graphs have all been reset.
        """
        with graph_pools_changing(self.device):
            torch.cuda.synchronize(self.index)
            for graph in self.graphs:
                graph.reset()
            self.graphs.clear()
            self.pool = torch.cuda.graph_pool_handle()
            torch.cuda.empty_cache()

    def _reserve(self) -> None:
        """Reserve the memory of the first graph as one block, to avoid fragmentation.

        With many small blocks, 10 % to 25 % of the memory was lost to fragmentation.
        """
        size = int(HEADROOM * self.peak_bytes)
        torch.empty(size, dtype=torch.uint8, device=self.device)

    @contextmanager
    def _in_pool(self) -> Iterator[None]:
        """Inside, allocations of this thread come from the pool of the graphs."""
        with graph_pools_changing(self.device):
            torch._C._cuda_beginAllocateCurrentThreadToPool(self.index, self.pool)
            try:
                yield
            finally:
                torch._C._cuda_endAllocateToPool(self.index, self.pool)
                torch._C._cuda_releasePool(self.index, self.pool)

    def _leave_pool(self) -> None:
        """Stop allocating in the pool; a failed capture does not do that by itself."""
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(self.index, self.pool)
            torch._C._cuda_releasePool(self.index, self.pool)


@contextmanager
def synchronisations_recorded() -> Iterator[list[str]]:
    """Inside, record the source lines that synchronise with the device.

    PyTorch reports synchronisations of all threads, so the thread that prefetches
    batches, which may synchronise, is paused.

    Yields:
        A list that is filled on exit, with entries like "uplift.py, line 12".
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
