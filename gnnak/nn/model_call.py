"""The call of a model that is in progress.

A backend may compute something for all GNN-AK layers of a model at once, and keep the
results until the call of the model ends. The functions do nothing in code that
`torch.compile` compiles.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import torch
from torch import nn

from gnnak.nn.uplift import GNNAK


class ModelCall:
    """One call of a model, from its beginning to its end.

    Args:
        model: The model.
        outer: The call in which this call was made; None if there is none.

    Attributes:
        results: What a backend has computed for the layers in this call.
    """

    def __init__(self, model: nn.Module, outer: "ModelCall | None") -> None:
        self.model, self.outer = model, outer
        self.results: dict[Any, Any] = {}

    @cached_property
    def layers(self) -> list[GNNAK]:
        """All GNN-AK layers of the model."""
        return [part for part in self.model.modules() if isinstance(part, GNNAK)]


_current: ContextVar[ModelCall | None] = ContextVar("model_call", default=None)


def current_call() -> ModelCall | None:
    """Return the innermost call of a model in this thread; None if there is none."""
    return _current.get()


def begin_call(model: nn.Module, _: object = None) -> None:
    """Begin a call of a model; this function is a PyTorch forward pre-hook."""
    if not torch.compiler.is_compiling():
        _current.set(ModelCall(model, _current.get()))


def end_call(model: nn.Module, *_: object) -> None:
    """End a call of a model; this function is a PyTorch forward hook."""
    if torch.compiler.is_compiling():
        return
    call = _current.get()
    if call is not None and call.model is model:
        _current.set(call.outer)


@contextmanager
def call_with(layer: GNNAK) -> Iterator[None]:
    """Context manager: within the block, a call with this layer is in progress.

    If the layer is called by itself, this is the call of the layer.
    """
    call = _current.get()
    if call is not None and layer in call.layers:
        yield
        return
    begin_call(layer)
    try:
        yield
    finally:
        end_call(layer)
