"""Programs that compile Triton kernels, run where Triton does not interpret them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def compiled(program: str, cache: Path, *arguments: str) -> str:
    """What a module says when it is run as a program.

    Args:
        program: The module's name.
        cache: A folder of its own for what is compiled.
        arguments: The program's arguments.
    """
    pytest.importorskip("triton")
    chosen = {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    kept = {key: value for key, value in os.environ.items() if "TRITON" not in key}
    command = [sys.executable, "-m", program, *arguments]
    done = subprocess.run(
        command, env=kept | chosen, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
