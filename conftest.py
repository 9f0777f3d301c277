"""Leaves out of the tests what needs Triton, where there is none."""

import importlib.util

NEED_TRITON = [
    "gnnak/nn/kernels/fast/*",
    "gnnak/sampling/fast.py",
    "tests/nn/compile_kernels.py",
    "tests/sampling/compile_draw.py",
]
collect_ignore_glob = [] if importlib.util.find_spec("triton") else NEED_TRITON
