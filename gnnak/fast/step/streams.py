"""Work on a GPU side by side, where none of it waits for the other.

Kernels of small batches leave most of a GPU idle. In a step that is captured as a CUDA
graph, kernels of different lanes may run at the same time; launched one by one they
would gain nothing, so that there is one lane then, as there is on a CPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


class SideStreams:
    """SideStreams that part from the work so far, and are joined by what follows.

    What a lane makes belongs to it until then. Tensors that it reads or fills must
    stay alive until then, too.

    Args:
        device: Where the work is done.

    >>> with SideStreams(torch.device("cpu")) as lanes:
    ...     with lanes.side_stream():
    ...         first = torch.ones(2) + 1
    ...     second = torch.ones(2) + 2
    >>> first + second
    tensor([5., 5.])
    """

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self.device = device
        self.parted = on_gpu and torch.cuda.is_current_stream_capturing()
        self._streams: list[torch.cuda.Stream] = []

    def __enter__(self) -> "SideStreams":
        """Begin to part."""
        return self

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Inside, work is done beside all that comes after it, until lanes join."""
        if not self.parted:
            yield
            return
        stream = _stream(self.device, len(self._streams))
        stream.wait_stream(torch.cuda.current_stream(self.device))
        self._streams.append(stream)
        with torch.cuda.stream(stream):
            yield

    def __exit__(self, *_: object) -> None:
        """What follows waits for all lanes."""
        for stream in self._streams:
            torch.cuda.current_stream(self.device).wait_stream(stream)


@cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    """Always the same streams: each keeps memory of its own."""
    return torch.cuda.Stream(device)
