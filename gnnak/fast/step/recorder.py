"""What captures work on a device, to be done again and again."""

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
ROOM = 1.05
"""How much more memory graphs get than what was in use at the peak of a step."""


class Recorder(Protocol):
    """Runs work and captures it."""

    def warm(self, work: Work) -> Tensor:
        """Do the work once, in the way it will be captured."""

    def record(self, work: Work) -> Work:
        """Capture the work, without doing it.

        Returns:
            What does it, each time, on the tensors that it was captured with, and
            returns a tensor of its own.

        Raises:
            Exception: Whatever the work does that cannot be captured; nothing that it
                would have changed is changed then.
        """

    def forget(self) -> None:
        """Give back the memory of all that was captured; it is not replayed again."""


def make_recorder(device: torch.device) -> Recorder:
    """The recorder for a device."""
    return GraphRecorder(device) if device.type == "cuda" else CallRecorder()


class CallRecorder:
    """Where there is nothing to gain from a capture: work is simply called."""

    def warm(self, work: Work) -> Tensor:
        """Do the work."""
        return work()

    def record(self, work: Work) -> Work:
        """The work itself."""
        return work

    def forget(self) -> None:
        """Nothing is held."""


class GraphRecorder:
    """Captures work as CUDA graphs, which share their memory.

    They can, since none of them reads what another, or it itself, left there: what
    lasts from step to step, such as weights, lies outside. Random numbers follow from
    the seed and the offset that the device's generator has at the time of a replay,
    and move it on, as if the work were called.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)
        self.index = self.stream.device_index
        self.device = torch.device("cuda", self.index)
        self.room = 0
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.waits: list[str] = []

    def warm(self, work: Work) -> Tensor:
        """Do the work on the stream that it will be captured on.

        Once there are graphs, it is done in their memory, which holds nothing between
        replays but gradients, and these are not read again.
        """
        outside = torch.cuda.current_stream(self.index)
        self.stream.wait_stream(outside)
        inside = self._in_pool() if self.graphs else growth_measured(self.device)
        with (
            torch.cuda.stream(self.stream),
            synchronisations_recorded() as self.waits,
            inside as grown,
        ):
            result = work()
        outside.wait_stream(self.stream)
        if grown is None:
            return result.clone()
        (self.room,) = grown
        return result

    def record(self, work: Work) -> Work:
        """Capture the work as a graph; not if it waited when it was last done."""
        if self.waits:
            raise RuntimeError(f"a step waits for the device in {self.waits[0]}.")
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
                    self._make_room()
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

    def forget(self) -> None:
        """Reset the graphs, whoever holds them, and take another pool for others.

        A pool without graphs is not to be captured in again.
        """
        with graph_pools_changing(self.device):
            torch.cuda.synchronize(self.index)
            for graph in self.graphs:
                graph.reset()
            self.graphs.clear()
            self.pool = torch.cuda.graph_pool_handle()
            torch.cuda.empty_cache()

    def _make_room(self) -> None:
        """Get the memory of the first graph at once: pieces of it fit together better.

        Got one by one, they were seen to leave gaps of a tenth to a fourth of it.
        """
        torch.empty(int(ROOM * self.room), dtype=torch.uint8, device=self.device)

    @contextmanager
    def _in_pool(self) -> Iterator[None]:
        """Inside, this thread's memory is that of the graphs."""
        with graph_pools_changing(self.device):
            torch._C._cuda_beginAllocateCurrentThreadToPool(self.index, self.pool)
            try:
                yield
            finally:
                torch._C._cuda_endAllocateToPool(self.index, self.pool)
                torch._C._cuda_releasePool(self.index, self.pool)

    def _leave_pool(self) -> None:
        """Give back what PyTorch does not after a capture that CUDA broke off."""
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(self.index, self.pool)
            torch._C._cuda_releasePool(self.index, self.pool)


@contextmanager
def synchronisations_recorded() -> Iterator[list[str]]:
    """Inside, notes the places in the code that wait for the device, in any thread.

    A backward pass may have threads of its own. The one that makes batches ahead may
    wait: it stands still meanwhile.
    """
    waits: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    with prefetching_paused(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for warning in warned:
        if "called a synchronizing CUDA operation" in str(warning.message):
            waits.append(f"{Path(warning.filename).name}, line {warning.lineno}")
        elif "prototype feature" not in str(warning.message):
            warnings.warn(warning.message, warning.category, stacklevel=3)
