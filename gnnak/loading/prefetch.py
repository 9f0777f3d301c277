"""Compute results on a GPU before they are needed, in a thread and on a side stream.

To assemble a batch, the host must synchronise. On the main stream, it would wait for
the training step in progress; on a side stream, a thread waits only for its own work.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Event, Lock, Semaphore, Thread, current_thread
from typing import Any, TypeVar

import torch

from gnnak.device import own_streams
from gnnak.loading.items import one_per_storage, tensors_of

T = TypeVar("T")
POLL_SECONDS = 0.1
"""How often a paused prefetching thread checks whether `close` was called."""
_making = Lock()
"""Locked while a thread computes a result, or while prefetching is paused."""
_END = object()


def prefetch(
    results: Generator[T, None, None], device: torch.device
) -> "Generator[T, None, None] | Prefetcher[T]":
    if device.type != "cuda":
        return results
    return Prefetcher(results, SideStream(device))


@contextmanager
def prefetching_paused() -> Iterator[None]:
    """Context manager: pause all prefetching, after the result in progress is done."""
    with _making:
        yield


class SideStream:
    """A GPU's stream for prefetching; waits for kernels launched before `__init__`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.created = torch.cuda.current_stream(device).record_event()

    @contextmanager
    def activate(self) -> Iterator[None]:
        stream = own_streams(self.device).prefetch
        stream.wait_event(self.created)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield

    def record_event(self) -> torch.cuda.Event:
        return torch.cuda.current_stream(self.device).record_event()

    def hand_over(self, result: Any, event: torch.cuda.Event) -> None:
        """Make the consumer's current stream wait until the result is computed."""
        here = torch.cuda.current_stream(self.device)
        here.wait_event(event)
        for tensor in one_per_storage(tensors_of(tuple(result))):
            tensor.record_stream(here)


class Prefetcher(Iterator[T]):
    """Iterates over results; when a result is taken, a thread computes the next one."""

    def __init__(self, results: Iterator[T], stream: SideStream) -> None:
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
        """Stop the thread; if it is computing a result, wait for that result first."""
        self._stopped.set()
        self._wanted.release()
        # The garbage collector may close a loader in any thread, also in this one.
        if self._thread is not current_thread():
            self._thread.join()


def _compute(
    results: Iterator,
    ready: Queue,
    wanted: Semaphore,
    stopped: Event,
    stream: SideStream,
) -> None:
    """Compute the next result whenever the consumer releases `wanted`."""
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
