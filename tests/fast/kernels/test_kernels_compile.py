import json

import pytest

from tests.compiling import compiled


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("--widths",), marks=pytest.mark.slow)]
)
def test_every_kernel_compiles_for_a_gpu(tmp_path, arguments):
    program = "tests.fast.kernels.compile_kernels"
    found = json.loads(compiled(program, tmp_path, *arguments).splitlines()[-1])
    assert found["known"]
    assert sorted(found["made"]) == found["known"], "call_all leaves kernels out"
    assert not found["again"], "compiled again for a batch of another size"
