"""Capture functions as CUDA graphs that share one memory pool."""

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnak.device import (
    graph_pools_changing,
    growth_measured,
    on_capture_stream,
    own_streams,
)
from gnnak.distributed import Collective, collectives_run_by
from gnnak.loading.prefetch import prefetching_paused

Work = Callable[[], Any]
"""Launches GPU work, and may return a tensor, such as the loss."""
HIDDEN = ("torch", "gnnak", "warnings", "contextlib", "threading")
"""Packages that `_calling_line` skips in the call stack."""
HEADROOM = 1.05
"""Memory reserved for CUDA graphs, as a multiple of the peak of an uncaptured step."""
_capturing = RLock()
"""Locked while work is captured or warmed up: all recorders of a GPU share a stream."""


class GraphRecorder:
    """Captures work as CUDA graphs in one memory pool.

    A graph reads from the pool only what graphs of the same training step have written.
    `peak_bytes` is the growth of memory in the last warm-up before the first capture.
    """

    failed: ClassVar[list[torch.cuda.CUDAGraph]] = []
    """The graphs of failed captures; never freed, since PyTorch may refer to them."""

    def __init__(self, device: torch.device) -> None:
        self.stream = own_streams(device).capture
        self.index = self.stream.device_index
        self.device = torch.device("cuda", self.index)
        self.peak_bytes = 0
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: list[torch.cuda.CUDAGraph] = []
        # Whether there are CUDA graphs in `pool`.
        self._is_pool_used = False
        self.synchronisations: list[str] = []

    def warm_up(self, work: Work) -> Any:
        """Run the work without a capture, and record its synchronisations."""
        used = self._is_pool_used
        allocation = self._in_pool() if used else growth_measured(self.device)
        with (
            _capturing,
            on_capture_stream(self.device),
            synchronisations_recorded() as self.synchronisations,
            collectives_run_by(_unrecorded),
            allocation as growth,
        ):
            result = work()
        if growth is None:
            return copied(result)
        (self.peak_bytes,) = growth
        return result

    def record(self, work: Work) -> Work:
        """Capture the work as CUDA graphs; return a function that replays them.

        Collective operations are not captured: a CUDA graph ends before each of them,
        and the next one begins. So processes can replay, capture or call their steps,
        whatever the others do. During the capture, no collective operation runs.
        """
        if self.synchronisations:
            where = self.synchronisations[0]
            raise RuntimeError(f"a step synchronises with the device in {where}.")
        parts: list[Callable[[], object]] = []
        graphs = [torch.cuda.CUDAGraph()]
        outside = torch.cuda.current_stream(self.index)
        try:
            with (
                _capturing,
                _garbage_collection_paused(),
                graph_pools_changing(self.device),
                self._captured(graphs, parts),
            ):
                if not self._is_pool_used:
                    self._reserve()
                result = work()
        except Exception:
            torch.cuda.set_stream(outside)
            self.failed.extend(graphs)
            self._leave_pool()
            self._leave_generator()
            raise
        self.graphs.extend(graphs)
        self._is_pool_used = True

        def replay() -> Any:
            for part in parts:
                part()
            return copied(result)

        return replay

    @contextmanager
    def _captured(
        self, graphs: list[torch.cuda.CUDAGraph], parts: list[Callable[[], object]]
    ) -> Iterator[None]:
        """Context manager: capture work; `parts` gets replays and collectives."""
        mode = "thread_local"
        capture = torch.cuda.graph(
            graphs[0], self.pool, self.stream, capture_error_mode=mode
        )

        def divide(collective: Collective) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch warns of an empty graph.
                graphs[-1].capture_end()
            parts.extend([graphs[-1].replay, collective])
            graphs.append(torch.cuda.CUDAGraph())
            # PyTorch ends the capture of the last graph.
            capture.cuda_graph = graphs[-1]
            graphs[-1].capture_begin(self.pool, capture_error_mode=mode)

        with capture, collectives_run_by(divide):
            yield
        parts.append(graphs[-1].replay)

    def release(self) -> None:
        """Reset all CUDA graphs, and create a new memory pool, as PyTorch requires."""
        with graph_pools_changing(self.device):
            torch.cuda.synchronize(self.index)
            for graph in self.graphs:
                graph.reset()
            self.graphs.clear()
            self._take_new_pool()
            torch.cuda.empty_cache()

    def _reserve(self) -> None:
        """Reserve memory for all CUDA graphs as one block, to avoid fragmentation."""
        size = int(HEADROOM * self.peak_bytes)
        torch.empty(size, dtype=torch.uint8, device=self.device)

    @contextmanager
    def _in_pool(self) -> Iterator[None]:
        with graph_pools_changing(self.device):
            torch._C._cuda_beginAllocateCurrentThreadToPool(self.index, self.pool)
            try:
                yield
            finally:
                torch._C._cuda_endAllocateToPool(self.index, self.pool)
                torch._C._cuda_releasePool(self.index, self.pool)

    def _leave_generator(self) -> None:
        """Capture an empty graph: this resets PyTorch's generator after a failure."""
        with _capturing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of the empty graph.
            graph, mode = torch.cuda.CUDAGraph(), "thread_local"
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode=mode):
                pass

    def _take_new_pool(self) -> None:
        self.pool, self._is_pool_used = torch.cuda.graph_pool_handle(), False

    def _leave_pool(self) -> None:
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(self.index, self.pool)
            torch._C._cuda_releasePool(self.index, self.pool)
        self._take_new_pool()


def _unrecorded(collective: Collective) -> None:
    """Run a collective operation, which may synchronise, in a warm-up."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("default")
    try:
        collective()
    finally:
        torch.cuda.set_sync_debug_mode(before)


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def synchronisations_recorded() -> Iterator[list[str]]:
    """Context manager: yield a list of synchronising lines ("uplift.py, line 12")."""
    lines: list[str] = []
    other_warnings: list[tuple[Any, ...]] = []

    def show(message: Any, category: Any, filename: str, line: int, *_: Any) -> None:
        if "called a synchronizing CUDA operation" in str(message):
            lines.append(_calling_line() or f"{Path(filename).name}, line {line}")
        elif "prototype feature" not in str(message):
            other_warnings.append((message, category, filename, line))

    before = torch.cuda.get_sync_debug_mode()
    # PyTorch reports synchronisations of all threads, so prefetching is paused.
    with prefetching_paused(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show  # type: ignore[assignment]
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield lines
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for warning in other_warnings:
        warnings.warn_explicit(*warning)


def _calling_line() -> str | None:
    """Return the innermost line of the call stack outside of the packages `HIDDEN`."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in HIDDEN:
            return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None
