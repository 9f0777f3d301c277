"""Find out whether padding changes outputs or buffers of a model, and where."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gnnak.streams import on_capture_stream
from gnnak.training.own_loop.buffers import SavedBuffers
from gnnak.training.own_loop.changes import built_weights

DROPOUTS = (
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
)
"""Dropout functions, which return their input while outputs are compared."""
TOLERANCES = {torch.double: 1e-9, torch.float: 1e-3}
"""Largest allowed difference by dtype, relative to the largest value plus `FLOOR`; for
all other dtypes, and with autocast, it is `HALF_TOLERANCE`."""
HALF_TOLERANCE = 5e-2
"""Largest allowed difference for float16 and bfloat16, as in `TOLERANCES`."""
FLOOR = 1e-2
"""Added to the largest value, since small outputs may be differences of larger values
with rounding errors."""
NOISE = 0.3
"""Size of the random numbers that are added to weights for a second comparison. They
are divided by the square root of the number of inputs of a Linear."""


class _NoDropout(TorchFunctionMode):
    """Context manager: dropout has no effect."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        return func(*args, **kwargs)


def find_difference(
    model: nn.Module, plain: Callable[[], Any], padded: Callable[[], Any]
) -> str | None:
    """Compare a model's outputs and buffers for a batch with and without padding.

    The model is compared twice: with its weights, and with random numbers added to its
    weights. New models often have weights that are zero or very small, which would hide
    a difference.

    All calls run without dropout and gradients, and start with the same buffers. At
    the end, the buffers and the state of random number generators are restored. The
    calls run on the stream of captures: PyTorch keeps a cuBLAS workspace of 32 MB for
    each stream.

    Args:
        model: The model, in training mode.
        plain: Calls the model without padding, and returns its outputs.
        padded: Calls the model with padding, and returns its outputs without padding
            rows.

    Returns:
        A text that says what differs, which buffer is replaced, or which error the call
        with padding raised; None if outputs and buffers are the same but for rounding.
    """
    weight = next(iter(model.parameters()))
    devices = [weight.device] if weight.is_cuda else []
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices),
        _NoDropout(),
        on_capture_stream(weight.device),
    ):
        buffers = SavedBuffers(model)
        try:
            reason = _difference(model, buffers, plain, padded)
            if reason is None:
                with _noisy_weights(model):
                    reason = _difference(model, buffers, plain, padded)
            return reason
        finally:
            buffers.restore()


@contextmanager
def _noisy_weights(model: nn.Module) -> Iterator[None]:
    """Context manager: random numbers are added to all weights of a model.

    Memory addresses and version counters of the weights do not change.
    """
    weights = [w.data for w in built_weights(model) if w.is_floating_point()]
    saved = [weight.clone() for weight in weights]
    try:
        for weight in weights:
            inputs = weight[0].numel() if weight.dim() > 1 and len(weight) else 1
            noise = torch.randn_like(weight, dtype=torch.float)
            weight.add_(noise.mul_(NOISE / max(inputs, 1) ** 0.5))
        yield
    finally:
        for weight, values in zip(weights, saved, strict=True):
            weight.copy_(values)


def _difference(
    model: nn.Module,
    buffers: SavedBuffers,
    plain: Callable[[], Any],
    padded: Callable[[], Any],
) -> str | None:
    """Say what differs between two calls of a model; see `find_difference`."""
    wanted, after_plain = buffers.call(plain)
    replaced = buffers.replaced()
    if replaced is not None:
        module, name = replaced
        return f"{_described(module)} replaces its buffer {name!r} in each call"
    try:
        found, after_padded = buffers.call(padded)
    except Exception as error:
        return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    if not _are_same(wanted, found):
        if not _are_same(wanted, buffers.call(plain)[0]):
            return "two calls of the model with the same batch return other values"
        module = _first_difference(model, buffers, plain, padded)
        return f"padding changes the output of {_described(module)}"
    device = next(iter(model.parameters())).device
    autocast = torch.is_autocast_enabled(device.type)
    changed = buffers.first_difference(after_plain, after_padded, autocast)
    if changed is None:
        return None
    module, name = changed
    return f"padding changes the buffer {name!r} of {_described(module)}"


def _first_difference(
    model: nn.Module,
    buffers: SavedBuffers,
    plain: Callable[[], Any],
    padded: Callable[[], Any],
) -> nn.Module:
    """Return the first module without submodules whose output padding changes."""
    with _outputs_of_modules(model) as wanted:
        buffers.call(plain)
    with _outputs_of_modules(model) as found:
        buffers.call(padded)
    for (module, one), (_, other) in zip(wanted, found, strict=False):
        rows = other.narrow(0, 0, one.size(0)) if _longer(other, one) else other
        if not _are_same(one, rows):
            return module
    return model


def _longer(one: Tensor, other: Tensor) -> bool:
    """Return whether the first of two tensors has more rows than the second."""
    return bool(one.dim() and other.dim()) and one.size(0) > other.size(0)


def _described(module: nn.Module) -> str:
    """Return the name of a module's class, with file and line if they are known."""
    kind = type(module)
    try:
        file, line = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return kind.__name__
    return f"{kind.__name__} ({Path(file or '').name}, line {line})"


@contextmanager
def _outputs_of_modules(
    model: nn.Module,
) -> Iterator[list[tuple[nn.Module, Tensor]]]:
    """Context manager: collect the outputs of all modules without submodules.

    Yields:
        A list to which each call of such a module appends the module and its output.
    """
    seen: list[tuple[nn.Module, Tensor]] = []

    def note(module: nn.Module, _: Any, output: Any) -> None:
        """Append a module and its output to the list; this is a forward hook."""
        if isinstance(output, Tensor):
            seen.append((module, output.detach().clone()))

    parts = [each for each in model.modules() if not [*each.children()]]
    hooks = [part.register_forward_hook(note) for part in parts]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _are_same(wanted: Any, found: Any) -> bool:
    """Return whether two outputs are equal but for rounding."""
    one, other = tree_leaves(wanted), tree_leaves(found)
    if len(one) != len(other):
        return False
    return all(_is_close(a, b) for a, b in zip(one, other, strict=True))


def _is_close(wanted: object, found: object) -> bool:
    """Return whether two leaves of outputs are equal but for rounding."""
    if not isinstance(wanted, Tensor) or not isinstance(found, Tensor):
        return type(wanted) is type(found)
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return False
    if not wanted.is_floating_point():
        return torch.equal(wanted, found)
    tolerance = TOLERANCES.get(wanted.dtype, HALF_TOLERANCE)
    if torch.is_autocast_enabled(wanted.device.type):
        tolerance = HALF_TOLERANCE
    size = float(wanted.abs().nan_to_num().max()) if wanted.numel() else 0.0
    return torch.allclose(
        found, wanted, rtol=0.0, atol=tolerance * (size + FLOOR), equal_nan=True
    )
