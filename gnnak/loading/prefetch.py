"""Work on a GPU ahead of what needs it, in a thread and a stream of its own.

Putting batches together asks the device for sizes, and waiting for the answer behind
a step of training would leave the device idle afterwards.
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
PATIENCE = 0.1
"""Seconds to wait for leave to make a result before seeing whether it is wanted."""
_making = Lock()
_END = object()


def prefetch(
    results: Generator[T, None, None], device: torch.device
) -> "Generator[T, None, None] | Prefetcher[T]":
    """The same results; on a GPU the next one is made while one is in use."""
    if device.type != "cuda":
        return results
    return Prefetcher(results, SideStream(device))


@contextmanager
def prefetching_paused() -> Iterator[None]:
    """Inside, no result is made ahead: what is being made is waited for first."""
    with _making:
        yield


class Lane(Protocol):
    """Where results are made, and how they are handed over from there."""

    def inside(self) -> AbstractContextManager:
        """What results are made in."""

    def mark(self) -> Any:
        """Say, inside, that a result is under way; not None."""

    def hand_over(self, result: Any, mark: Any) -> None:
        """Make a result that got this mark safe to use, outside."""


class SideStream:
    """A stream of its own.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.since = torch.cuda.current_stream(device).record_event()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The device and a stream, as the current ones of a thread."""
        stream = _stream(self.device)
        stream.wait_event(self.since)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield

    def mark(self) -> torch.cuda.Event:
        """An event behind all that was launched."""
        return torch.cuda.current_stream(self.device).record_event()

    def hand_over(self, result: Any, mark: torch.cuda.Event) -> None:
        """Let the taker's stream wait; the memory is not used again before it is."""
        here = torch.cuda.current_stream(self.device)
        here.wait_event(mark)
        for tensor in tensors_of(tuple(result)):
            tensor.record_stream(here)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One stream for all lanes of a device: free memory belongs to a stream."""
    return torch.cuda.Stream(device)


class Prefetcher(Iterator[T]):
    """The same results, made in a thread: the first at once, then always one more.

    Args:
        results: What is made.
        lane: Where.
    """

    def __init__(self, results: Iterator[T], lane: Lane) -> None:
        self._lane = lane
        self._made: Queue = Queue()
        self._wanted, self._stopped = Semaphore(1), Event()
        arguments = (results, self._made, self._wanted, self._stopped, lane)
        self._thread = Thread(target=_make, args=arguments, daemon=True)
        self._thread.start()

    def __next__(self) -> T:
        if self._stopped.is_set():
            raise StopIteration
        result, mark, error = self._made.get()
        if mark is None:
            self.close()
            raise error or StopIteration
        self._lane.hand_over(result, mark)
        self._wanted.release()
        return result

    def close(self) -> None:
        """Make no more; what is being made is waited for."""
        self._stopped.set()
        self._wanted.release()
        self._thread.join()


def _make(
    results: Iterator, made: Queue, wanted: Semaphore, stopped: Event, lane: Lane
) -> None:
    """Make each result while the one before is in use."""
    error = None
    try:
        with lane.inside():
            while wanted.acquire() and not stopped.is_set():
                while not _making.acquire(timeout=PATIENCE):
                    if stopped.is_set():
                        return
                try:
                    result = next(results, _END)
                    mark = None if result is _END else lane.mark()
                finally:
                    _making.release()
                if mark is None:
                    break
                made.put((result, mark, None))
                del result
    except BaseException as caught:
        error = caught
    made.put((None, None, error))
