"""Compute something for all GNN-AK layers of a model in one batch, once per call."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import nn

from gnnak.fast.layers.encoder import has_foreign_hooks
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


T = TypeVar("T")


def computed_for(
    layer: GNNAK,
    name: str,
    compute: Callable[[Sequence[GNNAK]], Sequence[T]],
    shapes: Callable[[GNNAK], Hashable],
) -> T:
    """Return what `compute` returns for a layer.

    In a call of a model, the result is computed for all layers of the model that fit
    into one batch with this layer, and cached until the call ends. Under activation
    checkpointing, and for a layer that is not part of the model, it is computed for
    this layer alone.

    Args:
        layer: The layer.
        name: Name of the results in the cache.
        compute: Returns the results for several layers.
        shapes: Returns a key that is equal for layers that fit into one batch.
    """
    call = current_call()
    if call is None or has_foreign_hooks():
        return compute([layer])[0]
    autocast = torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")
    key = (name, torch.is_grad_enabled(), autocast)
    found: dict[GNNAK, T] = call.results.setdefault(key, {})
    if layer not in found:
        if layer not in call.layers:
            return compute([layer])[0]
        mine = shapes(layer)
        alike = [one for one in call.layers if shapes(one) == mine]
        found |= zip(alike, compute(alike), strict=True)
    return found[layer]
