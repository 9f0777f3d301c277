"""Check the arguments of a `TrainingStep`, and the loss of a user's function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gnnak.errors import OptionError, described, kind_of
from gnnak.nn.calling.signature import check_module

AUTOCAST = (torch.bfloat16, torch.float16)
"""The data types of mixed precision."""
PYTORCH_LOSSES = (
    "torch",
    "torch._C._nn",
    "torch.nn.functional",
    "torch.nn.modules.loss",
)
"""The modules in which PyTorch defines functions of tensors, such as losses."""


def check_options(model: nn.Module, loss: object, optimizer: object) -> None:
    """Check the model, the loss and the optimiser of a `TrainingStep`.

    Raises:
        OptionError: If one of them has a wrong type, or if the optimiser does not fit.
    """
    check_module("the model", model)
    if not any(True for _ in model.parameters()):
        name = type(model).__name__
        raise OptionError(f"{name} has no weights to train; give a model with weights.")
    if any(isinstance(part, torch.jit.ScriptModule) for part in model.modules()):
        raise OptionError(
            "the model is compiled by torch.jit, which TrainingStep does not support; "
            "give the model itself, or compile it by torch.compile."
        )
    _check_loss(loss)
    if not isinstance(optimizer, Optimizer):
        raise OptionError(
            f"optimizer is {described(optimizer)}; give an optimiser of torch.optim, "
            "such as torch.optim.Adam(model.parameters())."
        )
    _check_optimizer(optimizer, model, loss)


def _check_loss(loss: object) -> None:
    """Check that a loss can be called with an output and a batch.

    The loss functions and loss modules of PyTorch get tensors instead of a batch.
    """
    if isinstance(loss, type) or not callable(loss):
        raise OptionError(
            f"loss is {described(loss)}; give a function loss(output, batch)."
        )
    inside: Any = loss
    while isinstance(inside, functools.partial):
        inside = inside.func
    inside = getattr(inside, "_orig_mod", inside)  # compiled by torch.compile
    is_module = isinstance(inside, nn.Module)
    function = type(inside).forward if is_module else inside
    if getattr(function, "__module__", None) in PYTORCH_LOSSES:
        name = type(inside).__name__ if is_module else inside.__name__
        call = f"{name}()" if is_module else name
        raise OptionError(
            f"loss gets (output, batch), but {name} takes tensors; write "
            f"loss=lambda output, batch: {call}(output, batch.y)."
        )
    _check_parameters("loss", "output, batch", loss)


def _check_parameters(option: str, given: str, function: Callable) -> None:
    """Raise `OptionError` if a function cannot be called with two arguments.

    Args:
        option: Name of the option that the function was given as.
        given: Names of the two arguments that the function gets.
        function: The function, or an object that is called like one.
    """
    called = function
    if (
        isinstance(function, nn.Module)
        and type(function).__call__ is nn.Module.__call__
    ):
        called = function.forward
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # some functions in C have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError:
        taken = ", ".join(signature.parameters)
        raise OptionError(
            f"{option} gets ({given}), but takes ({taken}); give a function "
            f"{option}({given})."
        ) from None


def _check_optimizer(optimizer: Optimizer, model: nn.Module, loss: object) -> None:
    """Check that an optimiser trains the model or the loss, and needs no closure.

    If the model is frozen, the optimiser may train anything.
    """
    name = type(optimizer).__name__
    parameters = inspect.signature(optimizer.step).parameters
    closure = parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise OptionError(
            f"{name} calls the model several times per step, through a closure, which "
            "TrainingStep does not support; use another optimiser, such as Adam."
        )
    known = {id(weight) for weight in model.parameters()}
    if isinstance(loss, nn.Module):
        known |= {id(weight) for weight in loss.parameters()}
    given = [weight for group in optimizer.param_groups for weight in group["params"]]
    frozen = not any(weight.requires_grad for weight in model.parameters())
    if not frozen and not any(id(weight) in known for weight in given):
        raise OptionError(
            f"{name} trains no weight of the model {type(model).__name__}; build it "
            "with the parameters() of this very model, or freeze the model."
        )


def check_choices(
    clip: object, call: object, autocast: object, capture: object
) -> None:
    """Raise `OptionError` if an option of `TrainingStep` is not as it should be."""
    number = isinstance(clip, Real) and not isinstance(clip, bool)
    if clip is not None and not (number and float(clip) > 0):  # type: ignore[arg-type]
        raise OptionError(f"clip is {clip!r}; give a number greater than 0, or None.")
    if call is not None and not callable(call):
        raise OptionError(
            f"call is {described(call)}; give a function call(model, batch), or None."
        )
    if callable(call):
        _check_parameters("call", "model, batch", call)
    if not isinstance(capture, bool):
        raise OptionError(f"capture is {described(capture)}; give True or False.")
    if autocast is not None and autocast not in AUTOCAST:
        raise OptionError(
            f"autocast is {autocast!r}; give torch.bfloat16, torch.float16 or None."
        )


def checked_loss(value: object) -> Tensor:
    """Return the loss as a 0-dim tensor.

    Raises:
        OptionError: If the loss is no real scalar, or has no gradient.
    """
    if not isinstance(value, Tensor):
        kind = kind_of(value)
        raise OptionError(f"loss returned {kind}; return a tensor with one number.")
    if value.numel() != 1:
        raise OptionError(
            f"loss returned a tensor of shape {list(value.shape)}; return one number, "
            "for example its mean."
        )
    if value.is_complex():
        raise OptionError("loss returned a complex number; return a real number.")
    if not value.requires_grad:
        raise OptionError(
            "loss returned a tensor without gradient; compute it from the output, "
            "without detach() or torch.no_grad(), from a model with weights that are "
            "not frozen."
        )
    return value.reshape(()) if value.dim() else value
