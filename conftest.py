"""Leaves out of the tests what needs Triton, where there is none."""

import importlib.util

collect_ignore_glob = (
    []
    if importlib.util.find_spec("triton")
    else ["gnnak/nn/kernels/fast/*", "tests/nn/compile_kernels.py"]
)
