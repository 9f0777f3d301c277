import json

from tests.compiling import compiled


def test_every_kernel_compiles_for_a_gpu(tmp_path):
    found = json.loads(
        compiled("tests.fast.kernels.compile_kernels", tmp_path).splitlines()[-1]
    )
    assert found["known"]
    assert sorted(found["made"]) == found["known"], "call_all leaves kernels out"
    assert not found["again"], "compiled again for a batch of another size"
