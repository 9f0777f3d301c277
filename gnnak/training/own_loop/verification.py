"""Find out whether padding changes outputs, buffers or gradients of a model."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gnnak.device import on_capture_stream
from gnnak.errors import GnnakError
from gnnak.training.own_loop.buffers import SavedBuffers
from gnnak.training.own_loop.dtypes import is_inexact, real_dtype
from gnnak.training.own_loop.full_precision import full_precision
from gnnak.training.own_loop.gradients import GradientComparison
from gnnak.training.own_loop.no_dropout import NoDropout
from gnnak.training.own_loop.noise import add_noise, weights_restored
from gnnak.training.own_loop.stored_tensors import StoredTensors

TOLERANCES = {torch.double: 1e-9, torch.float: 1e-3}
"""Largest allowed difference by dtype (of complex numbers, by the dtype of their real
parts), relative to the largest value plus `FLOOR`; for all other dtypes, and with
autocast, it is `HALF_TOLERANCE`."""
HALF_TOLERANCE = 5e-2
"""Largest allowed difference for float16 and bfloat16, as in `TOLERANCES`."""
FLOOR = 1e-2
"""Added to the largest value, since small outputs may be differences of larger values
with rounding errors."""
SIMPLE = (bool, int, float, complex, str, type(None))
"""Outputs other than tensors that can be compared."""
MOST_LETTERS = 200
"""Number of letters of an error message that are shown."""


def find_difference(
    model: nn.Module, plain: Callable[[], Any], padded: Callable[[bool], Any]
) -> str | None:
    """Compare outputs, buffers and gradients of a model with and without padding.

    The model is compared twice: as it is, and with random numbers added to its weights
    and buffers. New models often have weights that are zero or very small, which would
    hide a difference. Tensors that the model stores as attributes are compared, too.

    All calls run without dropout and TF32, and start with the same buffers. If outputs
    and buffers are the same, gradients are compared; see `GradientComparison`. At the
    end, the buffers and the state of random number generators are restored. The calls
    run on the stream of captures: PyTorch keeps a cuBLAS workspace of 32 MB for each
    stream.

    Args:
        model: The model, in training mode.
        plain: Calls the model without padding, and returns its outputs.
        padded: Calls the model with padding, and returns its outputs without padding
            rows. Takes whether padding rows get large random values, and others; if
            not, their features are zero.

    Returns:
        A text that says what differs, which buffer is replaced, or which error the call
        with padding raised; None if outputs, buffers and gradients are the same but for
        rounding.
    """
    weight = next(iter(model.parameters()))
    devices = [weight.device] if weight.is_cuda else []
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices),
        NoDropout(),
        full_precision(),
        on_capture_stream(weight.device),
    ):
        buffers = SavedBuffers(model)
        # A model may use the global generators of Python and NumPy.
        of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            with weights_restored(model) as weights:
                calls = _Calls(model, buffers, plain, padded)
                reason = _difference(calls)
                if weights.have_changed():
                    reason = "a call of the model changes its weights"
                if reason is None:
                    weights.add_noise()
                    buffers.restore()
                    add_noise(model.buffers())
                    noisy = replace(calls, buffers=SavedBuffers(model), noisy=True)
                    reason = _difference(noisy) or _difference_of_gradients(noisy)
            return reason or _difference_of_gradients(calls)
        finally:
            buffers.restore()
            random.setstate(of_python)
            np.random.set_state(of_numpy)  # noqa: NPY002


@dataclass(frozen=True)
class _Calls:
    """Two calls of a model that are compared; see `find_difference`."""

    model: nn.Module
    buffers: SavedBuffers
    """The buffers that each call starts with."""
    plain: Callable[[], Any]
    """Calls the model without padding."""
    padded: Callable[[bool], Any]
    """Calls the model with padding."""
    noisy: bool = False
    """Whether random numbers were added to the weights. An error in the call without
    padding then means that such weights are not possible, and nothing is compared."""


def _difference(calls: _Calls) -> str | None:
    """Say what differs between outputs, stored tensors and buffers of two calls."""
    model, buffers, plain = calls.model, calls.buffers, calls.plain
    padded = partial(calls.padded, True)
    stored = StoredTensors(model)
    try:
        wanted, after_plain = buffers.call(plain)
    except Exception as error:
        return None if calls.noisy else _raised("a call without gradients", error)
    stored_by_plain = stored.new()
    replaced = buffers.replaced()
    if replaced is not None:
        module, name = replaced
        return f"{_described(module)} replaces its buffer {name!r} in each call"
    try:
        found, after_padded = buffers.call(padded)
    except GnnakError as error:
        return str(error).rstrip(".")
    except Exception as error:
        return _raised("the call with padding", error)
    if not _are_same(wanted, found):
        if not _are_same(wanted, buffers.call(plain)[0]):
            return "two calls of the model with the same batch return other values"
        module = _first_difference(model, buffers, plain, padded)
        return f"padding changes the output of {_described(module)}"
    stored_by_padded = stored.new()
    for place, tensors in stored_by_plain.items():
        # A model may store a tensor once, and use it in later calls.
        if not _are_same(tensors, stored_by_padded.get(place, tensors)):
            module, name = place
            where = _described(module)
            return f"padding changes the tensor {name} that {where} stores"
    device = next(iter(model.parameters())).device
    autocast = torch.is_autocast_enabled(device.type)
    changed = buffers.first_difference(after_plain, after_padded, autocast)
    if changed is None:
        return None
    module, name = changed
    return f"padding changes the buffer {name!r} of {_described(module)}"


def _difference_of_gradients(calls: _Calls) -> str | None:
    """Say which gradient or output differs if features of padding rows are zero."""
    model, buffers, plain = calls.model, calls.buffers, calls.plain
    padded = partial(calls.padded, False)
    gradients = GradientComparison(model)
    try:
        (wanted, ours), _ = buffers.call(partial(gradients.call, plain))
    except Exception as error:
        what = "a call and a backward pass without padding"
        return None if calls.noisy else _raised(what, error)
    try:
        (found, theirs), _ = buffers.call(partial(gradients.call, padded))
    except Exception as error:
        return _raised("a call with padding and gradients", error)
    if not _are_same(wanted, found):
        module = _first_difference(model, buffers, plain, padded)
        return f"padding changes the output of {_described(module)}"
    return gradients.difference(ours, theirs)


def _raised(what: str, error: Exception) -> str:
    """Say in one line which error a call raised."""
    first = (str(error).splitlines() or [""])[0].rstrip(".")[:MOST_LETTERS]
    return f"{what} raised {type(error).__name__}: {first}"


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
        return isinstance(wanted, SIMPLE) and wanted == found
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return False
    if not is_inexact(wanted):
        return torch.equal(wanted, found)
    tolerance = TOLERANCES.get(real_dtype(wanted), HALF_TOLERANCE)
    if torch.is_autocast_enabled(wanted.device.type):
        tolerance = HALF_TOLERANCE
    # Columns may be of very different size.
    size = wanted.abs().nan_to_num(0.0, 0.0, 0.0)
    if wanted.dim() > 1 and wanted.size(0):
        size = size.amax(dim=0, keepdim=True)
    elif wanted.numel():
        size = size.amax()
    close = (found - wanted).abs() <= tolerance * (size + FLOOR)
    return bool((close | (found == wanted) | (found.isnan() & wanted.isnan())).all())
