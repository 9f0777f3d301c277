"""Faster implementations for GPUs and CPUs; without them, plain PyTorch runs."""

from gnnak.fast.backend import default_backend, make_backend

__all__ = ["default_backend", "make_backend"]
