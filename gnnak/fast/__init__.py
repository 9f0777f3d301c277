"""Faster implementations, for GPUs and CPUs; the rest of gnnak works without them.

`gnnak.backend` imports `default_backend` from here. A function decorated with
`gnnak.backend.operation` is replaced by the fast implementation of the same name, if
there is one and if it supports the arguments. Otherwise the function itself runs, in
plain PyTorch.
"""

from gnnak.fast.backend import default_backend, make_backend

__all__ = ["default_backend", "make_backend"]
