"""Run the backward passes of a training loop in the thread that runs the loop.

On a GPU, PyTorch by default runs the backward pass in a second thread, while the first
one waits. If a graph of operations is on one GPU, this only takes time: the two threads
run on two cores, and each finds its caches cold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import torch


class _Blocks(local):
    """The open `backward_in_calling_thread` blocks of the current thread."""

    count = 0
    """Number of open blocks."""
    setting: torch.autograd.grad_mode.set_multithreading_enabled | None = None
    """What the first of them has set, with the value before."""


_blocks = _Blocks()


@contextmanager
def backward_in_calling_thread(device: torch.device) -> Iterator[None]:
    """Context manager: on a GPU, run backward passes in the thread that calls them.

    Blocks may overlap without being nested, as with two loaders that are iterated at
    the same time: the setting before the first block is restored after the last one. A
    block that is closed by another thread changes nothing there.

    Args:
        device: The device of the batches; if it is no GPU, nothing is changed.

    >>> with backward_in_calling_thread(torch.device("cuda")):
    ...     torch._C._is_multithreading_enabled()
    False
    """
    if device.type != "cuda":
        yield
        return
    if not _blocks.count:
        _blocks.setting = torch.autograd.set_multithreading_enabled(False)
    _blocks.count += 1
    try:
        yield
    finally:
        _leave()


def _leave() -> None:
    """Leave a block, and restore the setting if it was the last one of this thread."""
    if _blocks.setting is None:
        return  # entered by another thread
    _blocks.count -= 1
    if not _blocks.count:
        _blocks.setting.__exit__(None, None, None)
        _blocks.setting = None
