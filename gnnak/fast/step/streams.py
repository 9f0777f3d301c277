"""Run independent kernels of a captured step at the same time, on side streams.

Kernels of small batches leave most of a GPU idle. In a step that is captured as a CUDA
graph, kernels of different streams may run at the same time. Outside of a capture, side
streams would gain nothing, because launching the kernels is the bottleneck; all work
then runs on the current stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gnnak.device import own_streams


class SideStreams:
    """Context manager: run work on side CUDA streams, and wait for them at the end.

    Each `side_stream` first waits for the work already launched on the current stream.
    When the `with` block ends, the current stream waits for all side streams. Tensors
    that a side stream reads or writes must stay alive until the block ends. Outside of
    a CUDA graph capture there are no side streams: all work runs on the current stream.

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
        """Return this object."""
        return self

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        """Context manager: the work in the `with` block runs on another side stream."""
        if not self.active:
            yield
            return
        # The same streams each time, since new ones could not reuse the memory that
        # PyTorch caches for old ones.
        streams = own_streams(self.device).side
        stream = streams[len(self._streams) % len(streams)]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        self._streams.append(stream)
        with torch.cuda.stream(stream):
            yield

    def __exit__(self, *_: object) -> None:
        """Make the current stream wait for all side streams."""
        for stream in self._streams:
            torch.cuda.current_stream(self.device).wait_stream(stream)
