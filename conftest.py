"""Leave out of the tests whatever needs a package that is not there."""

import importlib.util
import signal
from pathlib import Path

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts background jobs like this; programs that tests start inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

NEED_TRITON = [
    "gnnak/fast/kernels/gpu/*",
    "gnnak/fast/extraction.py",
    "gnnak/fast/sampling.py",
    "tests/fast/compile_*.py",
    "tests/fast/kernels/test_kernels_bounds.py",
    "tests/fast/*/compile_*.py",
    "tests/no_gpu.py",
]
"""Files that import Triton; `tests/test_architecture.py` checks the list."""
has_triton = importlib.util.find_spec("triton") is not None
collect_ignore_glob = [] if has_triton else NEED_TRITON
collect_ignore = []
if not (Path(__file__).parent / "gnnak/fast").is_dir():
    collect_ignore.append("tests/fast")
