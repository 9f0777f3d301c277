"""Detect optional packages."""

import importlib.util
import os
from functools import cache


@cache
def has_triton() -> bool:
    """Return whether Triton, which compiles the GPU kernels, is installed."""
    return importlib.util.find_spec("triton") is not None


def interprets_triton() -> bool:
    """Return whether Triton interprets its kernels, so that they also run on a CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"
