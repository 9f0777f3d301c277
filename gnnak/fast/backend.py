"""Build the backend for GPUs and the backend for CPUs."""

from functools import partial

import torch
from torch import Tensor

from gnnak.backend import Backend
from gnnak.fast.cpu import cpu_encodings
from gnnak.fast.kernels import has_fast_kernels, runs_kernels
from gnnak.fast.layers import convs, gather, general, layer, norm, ppgn, sswl, weights
from gnnak.fast.layers.parts import Serves, implementations_in
from gnnak.fast.step import captured, update
from gnnak.optional import has_triton, interprets_triton


def default_backend() -> Backend:
    """Return the backend for GPUs if there is a GPU, else the backend for CPUs."""
    if torch.cuda.is_available() or (has_triton() and interprets_triton()):
        return make_backend()
    return cpu_backend()


def cpu_backend(min_copies: int = 5000) -> Backend:
    """Build the CPU backend; it fuses layers with at least `min_copies` node copies."""
    found = implementations_in(_is_full_on_cpu, ppgn)
    return Backend("cpu", found | {"encode": partial(cpu_encodings, min_copies)})


def _is_full_on_cpu(x: Tensor) -> bool:
    kind = x.device.type
    full = x.dtype in (torch.float, torch.double)
    return kind == "cpu" and full and not torch.is_autocast_enabled(kind)


def make_backend(serves: Serves = has_fast_kernels) -> Backend:
    """Build the backend for GPUs; it fuses layers for tensors that `serves` accepts."""
    of_layers = (convs, gather, general, layer, norm, ppgn, sswl, weights)
    found = implementations_in(serves, *of_layers, captured, update)
    if has_triton():
        from gnnak.fast import extraction, sampling

        found |= implementations_in(runs_kernels, extraction, sampling)
        sample = partial(sampling.sample_greedily, runs_kernels)
        found["farthest_roots"] = partial(sample, True)
        found["set_cover_roots"] = partial(sample, False)
    return Backend("fast", found)
