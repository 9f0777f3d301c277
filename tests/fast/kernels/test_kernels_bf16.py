"""Triton kernels on rows in bfloat16 against plain ones on the same rows in float32."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import CentroidRows
from tests.fast.kernels.kernel_inputs import constants, edges_of, groups_of, norm_of

WIDTH, WIDER, HOPS, EDGES = 20, 36, 4, 9
WRITES = ("norm_linear_backward", "gate_pool_backward")
"""Kernels that write a result into their last argument."""


def given():
    """Return the arguments of each kernel by name: rows in bf16, others in float32."""
    groups, key = groups_of([3, 0, 40, 27], shuffled=True)
    m = len(key)
    h, c, s, into = torch.randn(4, m, WIDTH).bfloat16()
    grad, matrix = torch.randn(m, WIDER).bfloat16(), torch.randn(WIDER, WIDTH)
    edges, hop = edges_of(m, 150, EDGES), torch.randint(HOPS, (m,))
    e, eps, gate = torch.randn(EDGES, WIDTH), torch.rand(1), torch.rand(HOPS, WIDTH)
    k = constants(h, of_batch=True, real=torch.tensor(60))
    k = k._replace(**{name: getattr(k, name).float() for name in k._fields[:4]})
    all_real, at = k._replace(real=None), torch.arange(m)
    message = torch.randn(150, WIDTH).bfloat16()
    pooled = plain.pna_pool(message, edges.by_target)
    scale = torch.rand(m)
    return {
        "messages": (c, e, eps, edges),
        "messages_backward": (h, c, e, eps, edges, s),
        "gcn_sum": (h, scale, None, edges.source, edges.by_target),
        "norm_constants": (h, norm_of(WIDTH).float(), k.real),
        "norm_act": (h, k, True, s),
        "norm_act_at": (h, k, s, at[:20], True),
        "norm_act_backward": (s, h, k, True),
        "norm_linear": (h, k, matrix, torch.randn(WIDER), k.real),
        "norm_linear_backward": (grad, h, k, s, matrix, CentroidRows(c, at, at), into),
        "gate_pool": (h, all_real, gate, hop, groups),
        "gate_pool_backward": (gate, h, all_real, gate, hop, key, into),
        "pair_sum": (h, c, e.bfloat16(), edges),
        "pna_pool": (message, edges.by_target),
        "pna_pool_backward": (
            torch.randn_like(pooled),
            message,
            pooled,
            edges.by_target,
        ),
    }


def _listed(found):
    """Return the tensors among the results of a kernel."""
    found = [found] if isinstance(found, Tensor) else found
    return [value for value in found if isinstance(value, Tensor)]


def widened(value):
    """Return rows in bfloat16 as float32, and anything else unchanged."""
    narrow = isinstance(value, Tensor) and value.dtype == torch.bfloat16
    return value.float() if narrow else value


@pytest.mark.parametrize("name", given())
def test_kernel_on_bf16_sums_in_float32(few_parts, fast, name):
    arguments = given()[name]
    wide = tree_map(widened, arguments)
    found, wanted = getattr(fast, name)(*arguments), getattr(plain, name)(*wide)
    if name == "norm_linear":
        found, wanted = found[:1], wanted[:1]
    results, expected = _listed(found), _listed(wanted)
    if name in WRITES:
        results.append(arguments[-1])
        expected.append(wide[-1])
    for one, other in zip(results, expected, strict=True):
        off = (one.double() - other.double()).norm() / other.double().norm()
        assert off < 0.02, (name, one.dtype)


def test_statistics_of_a_product_in_bf16_are_float32(fast):
    h, k, matrix, offset, real = given()["norm_linear"]
    found, moments = fast.norm_linear(h, k, matrix, offset, real)
    assert (found.dtype, moments.partial.dtype) == (torch.bfloat16, torch.float)
