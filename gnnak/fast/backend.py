"""Build the fast backends, which map names of operations to fast implementations.

Implementations are beside the layers that they serve, marked with `implements`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnnak.backend import Backend
from gnnak.fast.cpu.layer import cpu_encodings
from gnnak.fast.kernels import has_fast_kernels
from gnnak.fast.layers import (
    convs,
    encoder,
    gather,
    general,
    layer,
    norm,
    ppgn,
    weights,
)
from gnnak.fast.layers.parts import Serves, implementations_in
from gnnak.fast.operations import OPERATIONS
from gnnak.optional import has_triton, interprets_triton


def default_backend() -> Backend:
    """Return the backend for this machine.

    With a GPU, or with Triton's interpreter, this is the backend of `make_backend`;
    tensors on a CPU then run in plain PyTorch. Without a GPU, this is `cpu_backend`.
    Triton's interpreter runs the GPU kernels on a CPU, slowly, for tests.
    """
    if torch.cuda.is_available() or (has_triton() and interprets_triton()):
        return make_backend()
    return cpu_backend()


def cpu_backend(min_copies: int = 5000) -> Backend:
    """Build the backend for machines without a GPU.

    Args:
        min_copies: Least number of node copies in a batch; smaller batches run in plain
            PyTorch, which is as fast.
    """
    found: dict[str, Callable[..., Any]] = {
        name: partial(function, _is_full_on_cpu)
        for name, function in implementations_in(ppgn).items()
    }
    return Backend("cpu", found | {"encode": partial(cpu_encodings, min_copies)})


def make_backend(serves: Serves = has_fast_kernels) -> Backend:
    """Build the backend for GPUs.

    Args:
        serves: Takes the input tensor of an operation and returns whether the fast
            implementation may be used. The default returns whether Triton kernels can
            run on the tensor. Tests pass another function to run fused layers on a CPU,
            with kernels in plain PyTorch.
    """
    modules = (convs, encoder, gather, general, layer, norm, ppgn, weights)
    of_layers = implementations_in(*modules)
    found = {name: partial(function, serves) for name, function in of_layers.items()}
    return Backend("fast", found | OPERATIONS)


def _is_full_on_cpu(x: Tensor) -> bool:
    """Return whether `x` is a tensor on a CPU, in full precision without autocast."""
    kind = x.device.type
    full = x.dtype in (torch.float, torch.double)
    return kind == "cpu" and full and not torch.is_autocast_enabled(kind)
