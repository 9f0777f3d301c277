"""Find out whether the optional package Triton is installed and how it runs."""

import importlib.util
import os
from functools import cache


@cache
def has_triton() -> bool:
    """Return whether Triton, the package for GPU kernels, is installed."""
    return importlib.util.find_spec("triton") is not None


def interprets_triton() -> bool:
    """Return whether TRITON_INTERPRET=1 is set.

    Then Triton interprets its kernels instead of compiling them, so that they also run
    on a CPU.
    """
    return os.environ.get("TRITON_INTERPRET") == "1"
