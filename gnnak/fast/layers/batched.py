"""Compute something for all GNN-AK layers of a model in one batch, once per call."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch

from gnnak.fast.layers.encoder import has_foreign_hooks
from gnnak.nn.model_call import current_call
from gnnak.nn.uplift import GNNAK

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
