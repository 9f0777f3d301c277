"""CUDA streams for prefetching, captures and side work, all different from each other.

PyTorch has 32 streams per GPU, and `torch.cuda.Stream` returns them in turn: the 33rd
stream is the first one again. If a stream for captures were also the stream of the
prefetching thread, kernels of that thread would become part of a CUDA graph, and a
replay would read and write memory that was freed long ago. So this package creates its
streams once per process, one right after the other, and never creates others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import NamedTuple

import torch

SIDE_STREAMS = 16
"""Number of side streams for kernels that run at the same time."""
_lock = Lock()
"""Locked while the streams of a GPU are created, so that all threads get the same."""


class OwnStreams(NamedTuple):
    """The streams that this package uses on one GPU."""

    prefetch: torch.cuda.Stream
    """The prefetching threads assemble batches on this stream."""
    capture: torch.cuda.Stream
    """Work is captured as CUDA graphs on this stream."""
    side: tuple[torch.cuda.Stream, ...]
    """Streams for independent kernels of captured work."""


def own_streams(device: torch.device) -> OwnStreams:
    """Return the streams of a GPU; they are the same for all calls in a process.

    Args:
        device: A GPU; "cuda" without an index means the current GPU.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    with _lock:
        return _streams_of(index)


@contextmanager
def on_capture_stream(device: torch.device) -> Iterator[None]:
    """Context manager: make the capture stream of a GPU the current stream.

    Its work starts after all work of the stream that is current outside, which waits
    for it at the end. On other devices, this does nothing.

    Args:
        device: A device.
    """
    if device.type != "cuda":
        yield
        return
    outside, stream = torch.cuda.current_stream(device), own_streams(device).capture
    stream.wait_stream(outside)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        outside.wait_stream(stream)


@cache
def _streams_of(index: int) -> OwnStreams:
    """Create the streams of the GPU with this index; later calls return the same."""
    device = torch.device("cuda", index)
    streams = [torch.cuda.Stream(device) for _ in range(2 + SIDE_STREAMS)]
    assert len(set(streams)) == len(streams), "PyTorch has fewer streams than expected"
    return OwnStreams(streams[0], streams[1], tuple(streams[2:]))
