"""Packages that are used where they are installed."""

import importlib.util
import os
from functools import cache


@cache
def has_triton() -> bool:
    """Whether Triton is installed, for kernels on a GPU."""
    return importlib.util.find_spec("triton") is not None


def interprets_triton() -> bool:
    """Whether Triton's kernels are interpreted: then they run on the CPU, too."""
    return os.environ.get("TRITON_INTERPRET") == "1"
