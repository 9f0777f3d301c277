"""Faster implementations, mostly for GPUs; the rest of gnnak works without them.

`gnnak.backend` imports `default_backend` from here. Each operation first tries the
implementation of that backend, then plain PyTorch.
"""

from gnnak.fast.backend import default_backend, make_backend

__all__ = ["default_backend", "make_backend"]
