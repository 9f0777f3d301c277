"""Backends: faster implementations of operations, for GPUs and for CPUs."""

from gnnak.fast.backend import default_backend, make_backend

__all__ = ["default_backend", "make_backend"]
