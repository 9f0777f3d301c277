"""Compute results on a GPU before they are needed, in a thread and on a side stream.

Assembling batches synchronises: the host needs to know sizes. On the main stream it
would have to wait for the training step in progress, and the GPU would be idle after
that step. A thread with a side stream waits only for its own work.
"""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from queue import Queue
from threading import Event, Lock, Semaphore, Thread
from typing import Any, Protocol, TypeVar

import torch

from gnnak.loading.flat import tensors_of

T = TypeVar("T")
POLL_SECONDS = 0.1
"""How often a thread that waits while prefetching is paused checks for `close`."""
_making = Lock()
"""Locked by a thread while it computes a result, and while prefetching is paused."""
_END = object()


def prefetch(
    results: Generator[T, None, None], device: torch.device
) -> "Generator[T, None, None] | Prefetcher[T]":
    """Return an iterator over the same results; on a GPU it prefetches the next one.

    Args:
        results: Computes the results, one by one.
        device: The device they are computed on.
    """
    if device.type != "cuda":
        return results
    return Prefetcher(results, SideStream(device))


@contextmanager
def prefetching_paused() -> Iterator[None]:
    """Pause all prefetching inside a `with` block.

    A result that is being computed is completed before the block is entered.
    """
    with _making:
        yield


class PrefetchStream(Protocol):
    """The place where a thread computes results, and how a consumer receives them."""

    def activate(self) -> AbstractContextManager:
        """Return the context in which the thread computes results."""

    def record_event(self) -> Any:
        """Return an event, not None, that marks the end of the work launched so far.

        The thread calls it after each result.
        """

    def hand_over(self, result: Any, event: Any) -> None:
        """Make a result safe to use in the calling thread, the consumer.

        Args:
            result: The result.
            event: The event that was recorded after it.
        """


class SideStream:
    """Compute results on a side stream of a GPU.

    The side stream first waits for the work launched before this object was created.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.created = torch.cuda.current_stream(device).record_event()

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make the side stream the current stream of the thread."""
        stream = _stream(self.device)
        stream.wait_event(self.created)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield

    def record_event(self) -> torch.cuda.Event:
        """Record an event after the work launched on the side stream so far."""
        return torch.cuda.current_stream(self.device).record_event()

    def hand_over(self, result: Any, event: torch.cuda.Event) -> None:
        """Make the consumer's stream wait for the result.

        The tensors are also registered with the consumer's stream, so that the
        allocator does not reuse their memory before that stream is done with them.
        """
        here = torch.cuda.current_stream(self.device)
        here.wait_event(event)
        for tensor in tensors_of(tuple(result)):
            tensor.record_stream(here)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the side stream of a device.

    There is only one: the allocator reuses freed memory on the same stream only.
    """
    return torch.cuda.Stream(device)


class Prefetcher(Iterator[T]):
    """Iterate over results that a thread computes one ahead of the consumer.

    The thread starts with the first result at once. Whenever a result is taken, it
    starts to compute the next one.

    Args:
        results: Computes the results, one by one.
        stream: Where the thread computes them.
    """

    def __init__(self, results: Iterator[T], stream: PrefetchStream) -> None:
        self._stream = stream
        self._ready: Queue = Queue()
        self._wanted, self._stopped = Semaphore(1), Event()
        arguments = (results, self._ready, self._wanted, self._stopped, stream)
        self._thread = Thread(target=_compute, args=arguments, daemon=True)
        self._thread.start()

    def __next__(self) -> T:
        if self._stopped.is_set():
            raise StopIteration
        result, event, error = self._ready.get()
        if event is None:
            self.close()
            raise error or StopIteration
        self._stream.hand_over(result, event)
        self._wanted.release()
        return result

    def close(self) -> None:
        """Stop the thread, after the result that it is computing."""
        self._stopped.set()
        self._wanted.release()
        self._thread.join()


def _compute(
    results: Iterator,
    ready: Queue,
    wanted: Semaphore,
    stopped: Event,
    stream: PrefetchStream,
) -> None:
    """Compute a result whenever one is wanted, until the end; runs in the thread.

    Args:
        results: Computes the results, one by one.
        ready: Receives (result, event, None) for each result; last (None, None, error),
            where the error is None unless one was raised.
        wanted: Released by the consumer once for each result to compute.
        stopped: Set by the consumer to end the thread.
        stream: Where results are computed.
    """
    error = None
    try:
        with stream.activate():
            while wanted.acquire() and not stopped.is_set():
                while not _making.acquire(timeout=POLL_SECONDS):
                    if stopped.is_set():
                        return
                try:
                    result = next(results, _END)
                    event = None if result is _END else stream.record_event()
                finally:
                    _making.release()
                if event is None:
                    break
                ready.put((result, event, None))
                del result
    except BaseException as caught:
        error = caught
    ready.put((None, None, error))
