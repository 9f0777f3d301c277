import json
import os
import subprocess
import sys

import pytest


def test_every_kernel_compiles_for_a_gpu(tmp_path):
    pytest.importorskip("triton")
    chosen = {
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    kept = {key: value for key, value in os.environ.items() if "TRITON" not in key}
    command = [sys.executable, "-m", "tests.nn.compile_kernels"]
    done = subprocess.run(
        command, env=kept | chosen, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["known"]
    assert sorted(found["made"]) == found["known"], "call_all leaves kernels out"
