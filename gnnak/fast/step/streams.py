"""Side streams: kernels that run at the same time in a captured step.

Kernels of small batches leave most of a GPU idle. In a step that is captured as a CUDA
graph, kernels of different streams may run at the same time. Launched one by one they
would gain nothing, so outside a capture, and on a CPU, everything stays on one stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


class SideStreams:
    """Streams that start after the work so far, and end before the work that follows.

    Tensors that a side stream reads or writes must stay alive until the `with` block
    of the `SideStreams` ends.

    Args:
        device: The device of the work.

    >>> with SideStreams(torch.device("cpu")) as streams:
    ...     with streams.side_stream():
    ...         first = torch.ones(2) + 1
    ...     second = torch.ones(2) + 2
    >>> first + second
    tensor([5., 5.])
    """

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self.device = device
        self.active = on_gpu and torch.cuda.is_current_stream_capturing()
        self._streams: list[torch.cuda.Stream] = []

    def __enter__(self) -> "SideStreams":
        """Return the object itself."""
        return self

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        """Inside, work runs on a new side stream, at the same time as later work."""
        if not self.active:
            yield
            return
        stream = _stream(self.device, len(self._streams))
        stream.wait_stream(torch.cuda.current_stream(self.device))
        self._streams.append(stream)
        with torch.cuda.stream(stream):
            yield

    def __exit__(self, *_: object) -> None:
        """Let the current stream wait for all side streams."""
        for stream in self._streams:
            torch.cuda.current_stream(self.device).wait_stream(stream)


@cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    """Return always the same streams: the allocator caches memory per stream."""
    return torch.cuda.Stream(device)
