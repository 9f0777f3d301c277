"""Everything that exists for speed alone; the rest of the package works without it.

`gnnak.backend` finds `default_backend` here, and every operation asks it first.
"""

from gnnak.fast.backend import default_backend, make_backend

__all__ = ["default_backend", "make_backend"]
