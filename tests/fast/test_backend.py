"""Fast implementations: of which operations, and for which pools."""

import ast
from pathlib import Path

import pytest
import torch

import gnnak
from gnnak.backend import PLAIN, use_backend
from gnnak.fast import make_backend
from gnnak.fast.backend import cpu_backend
from gnnak.nn import copies
from tests.fast.layers.fused_layers import inputs, make_layer, random_graph


def is_operation(function):
    return any(getattr(e, "id", "") == "operation" for e in function.decorator_list)


def test_every_fast_implementation_is_of_an_operation():
    files = Path(gnnak.__file__).parent.rglob("*.py")
    trees = [ast.parse(file.read_text()) for file in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    operations = {each.name for each in functions if is_operation(each)}
    for backend in (make_backend(), cpu_backend()):
        assert set(backend.implementations) <= operations


def largest(values, index, size, reduce):
    """Pool rows by their largest value, the one `reduce` that this function knows."""
    assert reduce == "max"
    at = index[:, None].expand_as(values)
    return values.new_zeros(size, values.size(1)).scatter_reduce(0, at, values, "amax")


@pytest.mark.parametrize("backend", ["fused", "cpu"])
@pytest.mark.parametrize("mlp_layers", [0, 1])
def test_an_unknown_reduce_reaches_plain_pytorch(monkeypatch, backend, mlp_layers):
    monkeypatch.setattr(copies, "segment_reduce", largest)
    layer = make_layer(options=gnnak.LayerOptions(mlp_layers=mlp_layers)).eval()
    layer.reduce = "max"
    given = inputs(*random_graph())
    fast = cpu_backend(0) if backend == "cpu" else make_backend(lambda _: True)
    with use_backend(PLAIN):
        wanted = layer(*given)
    with use_backend(fast):
        torch.testing.assert_close(layer(*given), wanted)
