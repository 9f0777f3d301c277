"""Work on a GPU ahead of what needs it, in a thread and a stream of its own.

Putting batches together asks the device for sizes, and waiting for the answer behind
a step of training would leave the device idle afterwards.
"""

from collections.abc import Iterator
from queue import Queue
from threading import Event, Semaphore, Thread
from typing import TypeVar

import torch

from gnnak.training.flat import tensors_of

T = TypeVar("T")
THREAD = "gnnak batches"
"""The name of the thread: its waits for the device hold up nobody."""


def ahead(results: Iterator[T], device: torch.device) -> Iterator[T]:
    """The same results; on a GPU the next one is made while one is in use."""
    if device.type != "cuda":
        return results
    return _ahead(results, device)


def _ahead(results: Iterator[T], device: torch.device) -> Iterator[T]:
    made: Queue = Queue()
    wanted = Semaphore(1)
    stopped = Event()
    arguments = (results, made, wanted, stopped, device)
    thread = Thread(target=_make, args=arguments, name=THREAD, daemon=True)
    thread.start()
    try:
        while True:
            result, ready, error = made.get()
            if error is not None:
                raise error
            if ready is None:
                return
            here = torch.cuda.current_stream(device)
            here.wait_event(ready)
            for tensor in tensors_of(tuple(result)):
                tensor.record_stream(here)
            wanted.release()
            yield result
    finally:
        stopped.set()
        wanted.release()
        thread.join()


def _make(
    results: Iterator[T],
    made: Queue,
    wanted: Semaphore,
    stopped: Event,
    device: torch.device,
) -> None:
    """Make each result when the one before is in use."""
    try:
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            wanted.acquire()
            for result in results:
                made.put((result, torch.cuda.current_stream().record_event(), None))
                del result
                wanted.acquire()
                if stopped.is_set():
                    return
        made.put((None, None, None))
    except BaseException as error:
        made.put((None, None, error))
