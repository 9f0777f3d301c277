"""Work on a GPU ahead of what needs it, in a thread and a stream of its own.

Putting batches together asks the device for sizes, and waiting for the answer behind
a step of training would leave the device idle afterwards.
"""

from collections.abc import Iterator
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

import torch

from gnnak.training.flat import tensors_of

T = TypeVar("T")
AHEAD = 1
"""Results that wait to be taken."""


def ahead(results: Iterator[T], device: torch.device) -> Iterator[T]:
    """The same results; on a GPU the next one is made while one is in use."""
    if device.type != "cuda":
        return results
    return _ahead(results, device)


def _ahead(results: Iterator[T], device: torch.device) -> Iterator[T]:
    made: Queue = Queue(AHEAD)
    stopped = Event()
    thread = Thread(target=_make, args=(results, made, stopped, device), daemon=True)
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
            yield result
    finally:
        stopped.set()
        while thread.is_alive():
            try:
                made.get(timeout=0.01)
            except Empty:
                continue


def _make(
    results: Iterator[T], made: Queue, stopped: Event, device: torch.device
) -> None:
    error = None
    try:
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            for result in results:
                made.put((result, torch.cuda.current_stream().record_event(), None))
                if stopped.is_set():
                    return
    except BaseException as caught:
        error = caught
    made.put((None, None, error))
