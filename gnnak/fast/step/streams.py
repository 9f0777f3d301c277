"""Run independent kernels of a captured step at the same time, on side streams.

Kernels of small batches leave most of a GPU idle. In a step that is captured as a CUDA
graph, kernels of different streams may run at the same time. Outside of a capture, side
streams would gain nothing, because launching the kernels is the bottleneck; then, and
on a CPU, everything runs on the current stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


class SideStreams:
    """Fork work onto side streams inside a `with` block, and join them at its end.

    A side stream waits for the work launched before it. The current stream waits for
    all side streams when the block ends. Tensors that a side stream reads or writes
    must stay alive until then.

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
        """Inside, work runs on another side stream, in parallel to the current one."""
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
    """Return the side stream with this number; reused, as memory is cached per stream.

    A new stream could not reuse the memory that the allocator has cached for others.
    """
    return torch.cuda.Stream(device)
