"""The Triton kernels of norm and product against the plain ones, in the interpreter."""

import copy

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import CentroidRows
from tests.fast.kernels.kernel_inputs import (
    assert_agree,
    assert_same,
    constants,
    edges_of,
    groups_of,
    norm_of,
    rows,
)

SIZES = [(1, 1), (5, 16), (144, 65), (64, 144), (33, 130), (16, 200), (17, 272)]
"""Numbers of columns of the rows and of the product."""
NORMS = [None, (True, None), (True, 30), (False, None), (False, 30)]
"""None = no norm, or whether it uses batch statistics and the number of real rows."""


def product_inputs(count, inner, outer, norm, adds, strided=False):
    h, matrix = rows(count, inner, strided), rows(outer, inner)
    k = None
    if norm is not None:
        of_batch, real = norm
        k = constants(h, of_batch, None if real is None else torch.tensor(real))
    s = rows(count, inner) if adds else None
    return h, k, s, matrix


@pytest.fixture(params=["few", "many"])
def tiles(request, fast, monkeypatch):
    """Use the tiles for few or for many rows."""
    least = 0 if request.param == "many" else 2**30
    monkeypatch.setattr("gnnak.fast.kernels.gpu.product.MANY_ROWS", least)


def check_forward(fast, h, k, matrix, offset=None):
    real = None if k is None else k.real
    found, _ = fast.norm_linear(h, k, matrix, offset, real)
    assert_same(found, plain.norm_linear(h, k, matrix, offset, real)[0])


@pytest.mark.parametrize(("inner", "outer"), SIZES)
def test_norm_linear_agrees_at_every_width(tiles, fast, inner, outer):
    h, k, _, matrix = product_inputs(70, inner, outer, (True, None), False)
    check_forward(fast, h, k, matrix)
    check_forward(fast, h, k, matrix, rows(1, outer)[0])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("strided", [False, True])
def test_norm_linear_agrees(fast, norm, strided):
    h, k, _, matrix = product_inputs(70, 5, 7, norm, False, strided)
    check_forward(fast, h, k, matrix, rows(1, 7)[0])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 64, 65, 700])
def test_norm_linear_agrees_on_few_and_many_rows(few_parts, fast, count, transposed):
    h, k, _, matrix = product_inputs(count, 5, 7, (True, None), False)
    check_forward(fast, h, k, matrix.t().contiguous().t() if transposed else matrix)


@pytest.mark.parametrize(
    ("count", "real"), [(700, None), (700, 300), (700, 64), (70, 1), (70, 0), (2, None)]
)
@pytest.mark.parametrize("pools", [1, 2])
def test_moments_of_products_are_what_a_norm_finds(few_parts, fast, count, real, pools):
    h, _, _, matrix = product_inputs(count, 5, 6, None, False)
    real = None if real is None else torch.tensor(real)
    out, moments = fast.norm_linear(3 + h, None, matrix, None, real)
    parts = zip(out.chunk(pools, dim=1), moments.chunk(pools), strict=True)
    for part, known in parts:
        norm = norm_of(6 // pools)
        other = copy.deepcopy(norm)
        found = fast.norm_constants(part, norm, real, known)
        assert_same(found[:4], plain.norm_constants(part, other, real)[:4])
        assert_same(dict(norm.named_buffers()), dict(other.named_buffers()))


def test_statistics_are_precise_if_the_first_rows_are_outliers(fast):
    h = torch.randn(16384, 1)
    h[:64] += 1000
    found = fast.norm_constants(h, norm_of(1).float(), None)
    wanted = plain.norm_constants(h.double(), norm_of(1), None)
    assert abs(found.rstd.double() / wanted.rstd - 1) < 1e-5


@pytest.mark.parametrize("norm", NORMS[1:])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("strided", [False, True])
def test_norm_linear_backward_agrees(few_parts, fast, norm, adds, strided):
    h, k, s, matrix = product_inputs(200, 5, 7, norm, adds, strided)
    grad = rows(200, 7, strided)
    more = at_centroids(200, 5) if adds else None
    assert_backward_agrees(fast, grad, h, k, s, matrix, more)


@pytest.mark.parametrize(("inner", "outer"), SIZES)
def test_norm_linear_backward_agrees_at_every_width(fast, inner, outer):
    h, k, s, matrix = product_inputs(70, inner, outer, (True, None), True)
    more = at_centroids(70, inner)
    assert_backward_agrees(fast, rows(70, outer), h, k, s, matrix, more)


@pytest.mark.parametrize("count", [0, 1, 2, 33])
def test_norm_linear_backward_agrees_on_few_rows(fast, count):
    h, k, _, matrix = product_inputs(count, 5, 7, (True, None), False)
    assert_backward_agrees(fast, rows(count, 7), h, k, None, matrix, None)


@pytest.mark.parametrize("norm", NORMS[1:])
@pytest.mark.parametrize("adds", [False, True])
def test_norm_act_at_agrees(fast, norm, adds):
    h, k, residual, _ = product_inputs(70, 65, 1, norm, adds)
    for index in (torch.randint(70, (40,)), torch.zeros(0, dtype=torch.long)):
        for ones in (False, True):
            assert_agree(fast, "norm_act_at", h, k, residual, index, ones)


def assert_backward_agrees(fast, grad, h, *more):
    """Compare, with a contiguous and a strided buffer for the gradient of h."""
    for strided in (False, True):
        ours, theirs = (rows(*h.shape, strided) for _ in range(2))
        found = fast.norm_linear_backward(grad, h, *more, ours)
        wanted = plain.norm_linear_backward(grad, h, *more, theirs)
        assert_same((ours, *found), (theirs, *wanted))


def at_centroids(count, width):
    """Return random rows for the centroids, the first of every four copies."""
    subgraph = torch.arange(count) // 4
    centroid = torch.arange(0, count, 4)
    return CentroidRows(rows(len(centroid), width, strided=True), centroid, subgraph)


@pytest.mark.parametrize("most", [64, 128])
@pytest.mark.parametrize("width", [*range(1, 300, 3), 512, 1000])
def test_tiles_cover_every_column_once(width, most):
    pytest.importorskip("triton")
    from gnnak.fast.kernels.gpu.product import cut_columns

    programs, wide, narrow, has_narrow = cut_columns(width, most)
    covered = programs * wide + (narrow if has_narrow else 0)
    assert covered >= width
    assert not has_narrow or programs * wide < width
    assert covered < 2 * max(width, 16)


def test_precision_follows_the_setting_of_pytorch(fast):
    from gnnak.fast.kernels.gpu.product import precision

    one, asked = torch.ones(1), torch.backends.cuda.matmul
    before = asked.fp32_precision
    try:
        for wanted in ("tf32", "ieee"):
            asked.fp32_precision = wanted
            assert [precision(one), precision(one.double())] == [wanted, "ieee"]
    finally:
        asked.fp32_precision = before


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
        "gate_pool with logits": (h, all_real, c, None, groups),
        "gate_pool_backward with logits": (gate, h, all_real, c, None, key, into),
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
    found = [found] if isinstance(found, Tensor) else found
    return [value for value in found if isinstance(value, Tensor)]


def widened(value):
    narrow = isinstance(value, Tensor) and value.dtype == torch.bfloat16
    return value.float() if narrow else value


@pytest.mark.parametrize("name", given())
def test_kernel_on_bf16_sums_in_float32(few_parts, fast, name):
    arguments = given()[name]
    wide = tree_map(widened, arguments)
    name = name.partition(" ")[0]
    wanted, found = getattr(plain, name)(*wide), getattr(fast, name)(*arguments)
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
