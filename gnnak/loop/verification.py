"""Find out whether padding changes outputs, buffers or gradients of a model."""

import inspect
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gnnak.device import on_capture_stream
from gnnak.errors import GnnakError
from gnnak.loop.changes import (
    StoredTensors,
    built_weights,
    is_built,
    is_inexact,
    real_dtype,
)
from gnnak.loop.step import backward_in_calling_thread


@contextmanager
def full_precision() -> Iterator[None]:
    """Context manager: matrix products on a GPU use full float32, not TF32."""
    change, within, after = _setting()
    if within == after:
        yield
        return
    change(within)
    try:
        yield
    finally:
        change(after)


def _setting() -> tuple[Callable[[Any], object], Any, Any]:
    """Return a setter for TF32, the value that turns it off, and the current value."""
    matmul: Any = torch.backends.cuda.matmul
    try:
        before = torch.get_float32_matmul_precision()
        return torch.set_float32_matmul_precision, "highest", before
    except RuntimeError:
        pass
    try:
        return partial(setattr, matmul, "allow_tf32"), False, matmul.allow_tf32
    except RuntimeError:
        backends: Any = torch.backends
        before = matmul.fp32_precision
        if before == backends.fp32_precision:
            before = "none"  # the setting follows that of all products
        return partial(setattr, matmul, "fp32_precision"), "ieee", before


DROPOUTS = (
    *(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d),
    *(F.alpha_dropout, F.feature_alpha_dropout, torch.alpha_dropout, torch.dropout),
    *(torch.dropout_, torch.feature_dropout, torch.feature_alpha_dropout),
)
"""Functions that only apply dropout."""
ATTENTIONS = {F.scaled_dot_product_attention: 4, F.multi_head_attention_forward: 10}
"""Maps each function with a parameter `dropout_p` to the position of that parameter."""
RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
"""Functions behind `nn.LSTM`, `nn.GRU` and `nn.RNN`, with dropout between layers."""


class NoDropout(TorchFunctionMode):
    """Context manager: dropout has no effect."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        position = ATTENTIONS.get(func)
        if position is not None and len(args) <= position:
            kwargs = kwargs | {"dropout_p": 0.0}
        elif func in RECURRENT and bool in map(type, args):
            # The arguments are tensors, then has_biases, num_layers and dropout.
            position = [type(value) for value in args].index(bool) + 2
        if position is not None and len(args) > position:
            args = (*args[:position], 0.0, *args[position + 1 :])
        return func(*args, **kwargs)


BUFFER_TOLERANCES = {
    torch.double: (1e-9, 1e-12),
    torch.float: (2e-3, 1e-5),
    torch.half: (5e-2, 4e-3),
    torch.bfloat16: (5e-2, 2e-2),
}
"""Maps dtypes to (a, b): padding may change a buffer by at most a * change + b * size.
`size` is the largest absolute value in the buffer. `change` is the largest amount by
which a call without padding changes an entry of the buffer."""
AUTOCAST_TOLERANCES = (2e-2, 1e-3)
"""With autocast, the factors in `BUFFER_TOLERANCES` are at least these two numbers."""


class _SavedBuffer:
    """A buffer of a module (it may be None), and its values before a model call."""

    def __init__(self, module: nn.Module, name: str, tensor: Tensor | None) -> None:
        self.module, self.name, self.tensor = module, name, tensor
        self.has_gradient = tensor is not None and tensor.requires_grad
        # This shares the buffer's memory, in case a call replaces `buffer.data`.
        self.memory = (
            torch.empty(0, device="cpu") if tensor is None else tensor.detach()
        )
        # The copy is on the host, to save GPU memory.
        self.copy = self.memory.to("cpu", copy=True)

    def is_replaced(self) -> bool:
        now = self.module._buffers.get(self.name)
        if now is not self.tensor:
            return True
        return now is not None and now.data_ptr() != self.memory.data_ptr()

    def restore(self) -> None:
        if self.is_replaced():
            self.module._buffers[self.name] = self.tensor
        if self.tensor is None:
            return
        if self.is_replaced():
            self.tensor.data = self.memory
        if self.tensor.requires_grad and not self.has_gradient:
            # A call with gradients has changed the buffer in place.
            self.tensor.detach_()
        if self.new_values() is not None:
            self.memory.copy_(self.copy)

    def new_values(self) -> Tensor | None:
        """Return the buffer's values on the host, or None if they have not changed."""
        now = self.memory.cpu()
        if torch.equal(now, self.copy):
            return None
        return now.clone() if now is self.memory else now


class SavedBuffers:
    """Saves and restores the buffers of a model, except lazy and sparse ones."""

    def __init__(self, model: nn.Module) -> None:
        self._places = [
            _SavedBuffer(module, name, tensor)
            for module in model.modules()
            for name, tensor in module._buffers.items()
            if tensor is None or is_built(tensor)
        ]

    def restore(self) -> None:
        for place in self._places:
            place.restore()

    def call(self, run: Callable[[], Any]) -> tuple[Any, list[Tensor | None]]:
        """Restore the buffers, call `run`; return its result and new buffer values."""
        self.restore()
        found = run()
        return found, [place.new_values() for place in self._places]

    def replaced(self) -> tuple[nn.Module, str] | None:
        return next(((p.module, p.name) for p in self._places if p.is_replaced()), None)

    def first_difference(
        self, wanted: list[Tensor | None], found: list[Tensor | None], autocast: bool
    ) -> tuple[nn.Module, str] | None:
        """Return module and name of the first buffer that padding changes, or None."""
        for place, one, other in zip(self._places, wanted, found, strict=True):
            if place.copy is None or (one is None and other is None):
                continue
            after = [place.copy if each is None else each for each in (one, other)]
            if not _are_close(place.copy, after[0], after[1], autocast):
                return place.module, place.name
        return None


def _are_close(before: Tensor, wanted: Tensor, found: Tensor, autocast: bool) -> bool:
    if not is_inexact(wanted):
        return torch.equal(wanted, found)
    change, size = (
        float(each.abs().nan_to_num(0.0, 0.0).max()) if each.numel() else 0.0
        for each in (wanted - before, wanted)
    )
    of_change, of_size = BUFFER_TOLERANCES.get(
        real_dtype(wanted), BUFFER_TOLERANCES[torch.bfloat16]
    )
    if autocast:
        of_change = max(of_change, AUTOCAST_TOLERANCES[0])
        of_size = max(of_size, AUTOCAST_TOLERANCES[1])
    allowed = of_change * change + of_size * size
    return torch.allclose(found, wanted, rtol=0.0, atol=allowed, equal_nan=True)


NOISE = 0.3
"""Size of the random numbers added to weights and buffers. For a weight matrix, they
are divided by the square root of the number of inputs."""


class SavedWeights:
    """Saves and restores weights, which keep their addresses and version counters."""

    def __init__(self, model: nn.Module) -> None:
        every = [weight.data for weight in built_weights(model)]
        self._weights = [w for w in every if is_inexact(w) and _is_plain(w)]
        self._saved = [weight.clone() for weight in self._weights]

    def have_changed(self) -> bool:
        pairs = zip(self._weights, self._saved, strict=True)
        return not all(torch.equal(now, before) for now, before in pairs)

    def add_noise(self) -> None:
        for weight in self._weights:
            inputs = weight[0].numel() if weight.dim() > 1 and len(weight) else 1
            dtype = torch.cfloat if weight.is_complex() else torch.float
            noise = torch.randn_like(weight, dtype=dtype)
            weight.add_(noise.mul_(NOISE / max(inputs, 1) ** 0.5))

    def restore(self) -> None:
        for weight, values in zip(self._weights, self._saved, strict=True):
            weight.copy_(values)


def add_noise(buffers: Iterable[Tensor]) -> None:
    """Add positive random numbers to buffers, so that variances stay positive."""
    for buffer in buffers:
        if not is_lazy(buffer) and is_inexact(buffer) and _is_plain(buffer):
            noise = torch.randn_like(buffer, dtype=torch.float)
            buffer.data.add_(noise.abs_().mul_(NOISE))


def _is_plain(weight: Tensor) -> bool:
    strides = zip(weight.shape, weight.stride(), strict=True)
    overlapping = any(size > 1 and not stride for size, stride in strides)
    return (
        weight.dtype.itemsize > 1 and weight.device.type != "meta" and not overlapping
    )


GRADIENT_TOLERANCES = {torch.double: 1e-6, torch.float: 0.02}
"""Per dtype, a factor t: padding may change a gradient by t * (its norm +
`GRADIENT_FLOOR` * norm of all gradients). The factors are larger than for outputs,
because rounding changes the sign of some inputs of ReLUs. For other dtypes, and with
autocast, only NaN and infinity count as changes."""
GRADIENT_FLOOR = 1e-2
"""Share of the norm of all gradients in `GRADIENT_TOLERANCES`. Without it, gradients
that are zero up to rounding errors, such as that of a bias before a BatchNorm, would
count as changed."""


class GradientComparison:
    """Compares the gradients of a model's weights with and without padding."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        weights = {id(weight) for weight in built_weights(model)}
        self._weights = {
            name: weight
            for name, weight in model.named_parameters()
            if weight.requires_grad and id(weight) in weights
        }
        self._of_outputs: list[Tensor] | None = None

    def call(self, run: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
        """Call `run`; return outputs and the gradients of a weighted sum of outputs."""
        with torch.enable_grad():
            outputs = run()
            tensors = (out for out in tree_leaves(outputs) if isinstance(out, Tensor))
            leaves = [out for out in tensors if is_inexact(out) and out.requires_grad]
            if self._of_outputs is None:
                self._of_outputs = [torch.rand_like(out) + 0.5 for out in leaves]
            pairs = zip(leaves, self._of_outputs, strict=False)
            total = sum((out * factor.conj()).real.sum() for out, factor in pairs)
        weights = list(self._weights.values())
        if not isinstance(total, Tensor):
            return outputs, [torch.zeros_like(weight) for weight in weights]
        # Another thread would allocate a cuBLAS workspace of its own, of 32 MB.
        with backward_in_calling_thread():
            found = torch.autograd.grad(total, weights, materialize_grads=True)
        return outputs, [each.to_dense() for each in found]

    def difference(self, wanted: list[Tensor], found: list[Tensor]) -> str | None:
        """Return a text about the first gradient that padding changes, or None."""
        finite = [each for each in wanted if each.isfinite().all()]
        size = sum(float(each.norm()) ** 2 for each in finite) ** 0.5
        for name, one, other in zip(self._weights, wanted, found, strict=True):
            if not one.isfinite().all():
                continue
            if not other.isfinite().all():
                return (
                    f"padding makes the gradient of {name} infinite or NaN; features "
                    "are zero in padding rows, so add a small number before you divide "
                    "by them or take their logarithm"
                )
            tolerance = GRADIENT_TOLERANCES.get(real_dtype(one))
            if tolerance is None or torch.is_autocast_enabled(one.device.type):
                continue
            allowed = tolerance * (float(one.norm()) + GRADIENT_FLOOR * size)
            if float((one - other).norm()) > allowed:
                return f"padding changes the gradient of {name}"
        return None


TOLERANCES = {torch.double: 1e-9, torch.float: 1e-3}
"""Per dtype, a factor t: padding may change an output by t * (size + `FLOOR`). The size
is the largest absolute value in the output or, in a matrix, in the column. A complex
dtype has the factor of its real part. For other dtypes, see `HALF_TOLERANCE`."""
HALF_TOLERANCE = 5e-2
"""The factor for dtypes that are not in `TOLERANCES`; with autocast, for all dtypes."""
FLOOR = 1e-2
"""Added to the size in the formula of `TOLERANCES`, for rounding errors near 0."""
SIMPLE = (bool, int, float, complex, str, type(None))
"""Types of outputs, other than tensors, that can be compared."""
MOST_LETTERS = 200
"""Number of letters of an error message that are shown."""


def find_difference(
    model: nn.Module, plain: Callable[[], Any], padded: Callable[[bool], Any]
) -> str | None:
    """Return a message if padding changes any result of a model, or else None.

    `plain()` and `padded(disturb)` call the model without and with padding, and return
    outputs without padding rows. If `disturb`, padding rows are not zero. The outputs,
    buffers and gradients are compared twice. The second time, random numbers are added
    to weights and buffers, because zeros could hide a difference. Dropout and TF32 are
    off. Weights, buffers and random generators are restored.
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
        buffers, weights = SavedBuffers(model), SavedWeights(model)
        # A model may use the global generators of Python and NumPy.
        of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            calls = _Calls(model, buffers, plain, padded)
            reason = calls.difference()
            if weights.have_changed():
                reason = "a call of the model changes its weights"
            if reason is None:
                weights.add_noise()
                buffers.restore()
                add_noise(model.buffers())
                noisy = replace(calls, buffers=SavedBuffers(model), noisy=True)
                reason = noisy.difference() or noisy.difference_of_gradients()
            weights.restore()
            return reason or calls.difference_of_gradients()
        finally:
            weights.restore()
            buffers.restore()
            random.setstate(of_python)
            np.random.set_state(of_numpy)  # noqa: NPY002


@dataclass(frozen=True)
class _Calls:
    """Calls of a model without and with padding, whose results are compared."""

    model: nn.Module
    buffers: SavedBuffers
    plain: Callable[[], Any]
    padded: Callable[[bool], Any]
    """Calls the model with padding; `padded(True)` changes the padding rows first."""
    noisy: bool = False
    """Whether random numbers were added to the weights. If the call without padding
    then raises an error, nothing is compared."""

    def difference(self) -> str | None:
        """Return a text if padding changes outputs, stored tensors or buffers."""
        padded = partial(self.padded, True)
        stored = StoredTensors(self.model)
        try:
            wanted, after_plain = self.buffers.call(self.plain)
        except Exception as error:
            return None if self.noisy else _raised("a call without gradients", error)
        stored_by_plain = stored.new()
        replaced = self.buffers.replaced()
        if replaced is not None:
            module, name = replaced
            return f"{_described(module)} replaces its buffer {name!r} in each call"
        try:
            found, after_padded = self.buffers.call(padded)
        except GnnakError as error:
            return str(error).rstrip(".")
        except Exception as error:
            return _raised("the call with padding", error)
        if not _are_same(wanted, found):
            if not _are_same(wanted, self.buffers.call(self.plain)[0]):
                return "two calls of the model with the same batch return other values"
            return self._changed_output(padded)
        stored_by_padded = stored.new()
        for (module, name), tensors in stored_by_plain.items():
            # A model may store a tensor once, and use it in later calls.
            if not _are_same(tensors, stored_by_padded.get((module, name), tensors)):
                where = _described(module)
                return f"padding changes the tensor {name} that {where} stores"
        device = next(iter(self.model.parameters())).device
        autocast = torch.is_autocast_enabled(device.type)
        changed = self.buffers.first_difference(after_plain, after_padded, autocast)
        if changed is None:
            return None
        module, name = changed
        return f"padding changes the buffer {name!r} of {_described(module)}"

    def difference_of_gradients(self) -> str | None:
        """Return a message if padding changes a gradient or output, or else None."""
        padded = partial(self.padded, False)
        gradients = GradientComparison(self.model)
        try:
            (wanted, ours), _ = self.buffers.call(partial(gradients.call, self.plain))
        except Exception as error:
            what = "a call and a backward pass without padding"
            return None if self.noisy else _raised(what, error)
        try:
            (found, theirs), _ = self.buffers.call(partial(gradients.call, padded))
        except Exception as error:
            return _raised("a call with padding and gradients", error)
        if not _are_same(wanted, found):
            return self._changed_output(padded)
        return gradients.difference(ours, theirs)

    def _changed_output(self, padded: Callable[[], Any]) -> str:
        with _outputs_of_modules(self.model) as wanted:
            self.buffers.call(self.plain)
        with _outputs_of_modules(self.model) as found:
            self.buffers.call(padded)
        changed = self.model
        for (module, one), (_, other) in zip(wanted, found, strict=False):
            has_rows = one.dim() > 0 and other.dim() > 0
            if has_rows and other.size(0) > one.size(0):
                other = other.narrow(0, 0, one.size(0))
            if not _are_same(one, other):
                changed = module
                break
        return f"padding changes the output of {_described(changed)}"


def _raised(what: str, error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0].rstrip(".")[:MOST_LETTERS]
    return f"{what} raised {type(error).__name__}: {first}"


def _described(module: nn.Module) -> str:
    kind = type(module)
    try:
        file, line = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return kind.__name__
    return f"{kind.__name__} ({Path(file or '').name}, line {line})"


@contextmanager
def _outputs_of_modules(model: nn.Module) -> Iterator[list[tuple[nn.Module, Tensor]]]:
    """Context manager: collect (module, output) of all modules without children."""
    seen: list[tuple[nn.Module, Tensor]] = []

    def note(module: nn.Module, _: Any, output: Any) -> None:
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
    one, other = tree_leaves(wanted), tree_leaves(found)
    if len(one) != len(other):
        return False
    return all(_is_close(a, b) for a, b in zip(one, other, strict=True))


def _is_close(wanted: object, found: object) -> bool:
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
