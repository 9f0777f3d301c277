"""Faster implementations, mostly for GPUs; the rest of gnnak works without them.

`gnnak.backend` imports `default_backend` from here. A function decorated with
`gnnak.backend.operation` first tries the fast implementation of the same name, if that
backend has one; if this does not support the arguments, plain PyTorch runs instead.
"""

from gnnak.fast.backend import default_backend, make_backend

__all__ = ["default_backend", "make_backend"]
