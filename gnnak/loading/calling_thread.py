"""Run the backward passes of a training loop in the thread that runs the loop.

On a GPU, PyTorch by default runs the backward pass in a second thread, while the first
one waits. For a model on one GPU, this only takes time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import torch


class _Blocks(local):
    """The `backward_in_calling_thread` blocks of the current thread."""

    def __init__(self) -> None:
        self.open: list[object] = []
        self.setting: torch.autograd.grad_mode.set_multithreading_enabled | None = None

    def restore(self) -> None:
        """Restore PyTorch's setting before the blocks, if they have changed it."""
        if self.setting is not None:
            self.setting.__exit__(None, None, None)
            self.setting = None


_blocks = _Blocks()


@contextmanager
def backward_in_calling_thread(device: torch.device) -> Iterator[None]:
    """Context manager: on a GPU, run backward passes in the thread that calls them.

    Blocks may overlap without being nested, as with two loaders that are iterated at
    the same time: the setting before the first block is restored after the last one.
    If the last block of a thread is left by another thread, or in inference mode, the
    setting is restored after the next block of the first thread.

    Args:
        device: The device of the batches. If it is no GPU, nothing is changed, nor is
            it in inference mode, which has no backward passes.

    >>> with backward_in_calling_thread(torch.device("cuda")):
    ...     torch._C._is_multithreading_enabled()
    False
    """
    if device.type != "cuda" or torch.is_inference_mode_enabled():
        yield
        return
    opened, block = _blocks.open, object()
    if not opened:
        _blocks.restore()
        _blocks.setting = torch.autograd.set_multithreading_enabled(False)
    opened.append(block)
    try:
        yield
    finally:
        opened.remove(block)
        same_thread = opened is _blocks.open
        # Inference mode would overwrite the setting at its end.
        if same_thread and not opened and not torch.is_inference_mode_enabled():
            _blocks.restore()
