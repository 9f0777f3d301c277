"""Track which call of a model is in progress.

In the first GNN-AK layer of a call, a backend may compute something for all layers of
the model at once. The results are cached until the call ends.
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

    Attributes:
        results: Results that a backend has cached for the layers in this call, by any
            keys.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.results: dict[Any, Any] = {}

    @cached_property
    def layers(self) -> list[GNNAK]:
        """All GNN-AK layers of the model."""
        return [part for part in self.model.modules() if isinstance(part, GNNAK)]


_current: ContextVar[ModelCall | None] = ContextVar("model_call", default=None)


def current_call() -> ModelCall | None:
    """Return the innermost call of a model in this thread; None if there is none."""
    return _current.get()


@contextmanager
def call_of(model: nn.Module) -> Iterator[None]:
    """Context manager: the block is a call of a model, in which weights do not change.

    In code that `torch.compile` compiles, calls are not tracked.
    """
    if torch.compiler.is_compiling():
        yield
        return
    token = _current.set(ModelCall(model))
    try:
        yield
    finally:
        _current.reset(token)
