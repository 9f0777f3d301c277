import os
import subprocess
import sys

import pytest


def test_fast_draw_compiles_for_a_gpu(tmp_path):
    pytest.importorskip("triton")
    chosen = {
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    kept = {key: value for key, value in os.environ.items() if "TRITON" not in key}
    command = [sys.executable, "-m", "tests.sampling.compile_draw"]
    done = subprocess.run(
        command, env=kept | chosen, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) == 9
