"""Find out whether Triton is installed and whether it interprets its kernels."""

import importlib.util
import os
from functools import cache


@cache
def has_triton() -> bool:
    """Return whether Triton, the package for GPU kernels, is installed."""
    return importlib.util.find_spec("triton") is not None


def interprets_triton() -> bool:
    """Return whether the environment variable TRITON_INTERPRET is 1.

    Triton then interprets kernels instead of compiling them, so that they also run on a
    CPU.
    """
    return os.environ.get("TRITON_INTERPRET") == "1"
