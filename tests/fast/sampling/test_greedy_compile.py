import pytest

from tests.compiling import compiled


@pytest.mark.slow
def test_fast_draw_compiles_for_a_gpu(tmp_path):
    assert len(compiled("tests.fast.sampling.compile_greedy", tmp_path).split()) == 9
