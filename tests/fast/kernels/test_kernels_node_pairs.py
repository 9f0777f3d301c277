"""The Triton kernels of GCN, PNA* and PPGN against the plain ones, interpreted."""

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.plain import node_pairs
from gnnak.fast.layers.parts import edges_of
from gnnak.nn.base.ppgn import find_pairs, multiply_pairs
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs import EgoNets
from tests.fast.kernels.kernel_inputs import assert_agree, assert_same, rows

SIZES = {
    "one node": [1],
    "two nodes": [2],
    "10 nodes": [10],
    "13 nodes": [13],
    "25 nodes": [25],
    "33 nodes": [33],
    "a tile and one node more": [8, 9, 16, 17],
    "several sizes, some twice": [3, 1, 13, 0, 3, 10, 1],
    "no node": [],
}
"""By name, the numbers of nodes of the graphs of a batch."""
CASES = [
    pytest.param(name, width, strided, marks=pytest.mark.slow if slow else ())
    for name, sizes in SIZES.items()
    for width, strided in ((1, False), (5, True), (32, True), (128, False))
    for slow in [sum(size**3 for size in sizes) * width > 12_000]
]
"""Names of `SIZES`, widths of states, and whether states are not contiguous."""


def pairs_of(name):
    """Return the node pairs of graphs whose nodes are in random order."""
    batch = torch.repeat_interleave(torch.tensor(SIZES[name], dtype=torch.long))
    return find_pairs(batch[torch.randperm(batch.numel())])


@pytest.mark.parametrize(("name", "width", "strided"), CASES)
def test_products_agree(fast, name, width, strided):
    pairs = pairs_of(name)
    left, right, grad = (rows(pairs.num_pairs, width, strided) for _ in range(3))
    assert_agree(fast, "pair_product", left, right, pairs)
    assert_agree(fast, "pair_product_backward", grad, left, right, pairs)


@pytest.mark.parametrize(("name", "width", "strided"), CASES)
def test_sums_over_pairs_agree(fast, name, width, strided):
    pairs = pairs_of(name)
    assert_agree(fast, "pool_pairs", rows(pairs.num_pairs, width, strided), pairs)
    grad = rows(len(pairs.first), 2 * width, strided)
    assert_agree(fast, "pool_pairs_backward", grad, pairs)
    left, right = (rows(pairs.num_pairs, width, strided) for _ in range(2))
    assert_agree(fast, "pool_product", left, right, pairs)
    assert_agree(fast, "pool_product_backward", grad, left, right, pairs)


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16, torch.half])
def test_kernels_of_node_pairs_sum_in_float32(fast, dtype):
    """Results are as exact as the dtype of the states allows."""
    pairs = pairs_of("10 nodes")
    left, right, grad = (rows(pairs.num_pairs, 5).to(dtype) for _ in range(3))
    back = rows(len(pairs.first), 10).to(dtype)
    for name, *given in (
        ("pair_product", left, right),
        ("pair_product_backward", grad, left, right),
        ("pool_pairs", left),
        ("pool_pairs_backward", back),
        ("pool_product", left, right),
        ("pool_product_backward", back, left, right),
    ):
        found = getattr(fast, name)(*given, pairs)
        wanted = getattr(plain, name)(*(each.double() for each in given), pairs)
        exact = torch.finfo(dtype).eps
        if not isinstance(found, tuple):
            found, wanted = (found,), (wanted,)
        for one, two in zip(found, wanted, strict=True):
            assert one.dtype == dtype
            off = (one.double() - two).abs().max()
            assert off <= 2 * exact * two.abs().max()


def test_pair_product_has_values_computed_by_hand():
    pairs = find_pairs(torch.tensor([0, 0]))
    left, right = torch.tensor([[1.0, 0, 3, 4], [5, 6, 0, 8]])[..., None]
    product = plain.pair_product(left, right, pairs)
    assert product.flatten().tolist() == [5, 6, 15, 50]
    grad = torch.tensor([[1.0, 10, 100, 1000]]).t()
    of_left, of_right = plain.pair_product_backward(grad, left, right, pairs)
    assert of_left.flatten().tolist() == [65, 0, 6500, 8000]
    assert of_right.flatten().tolist() == [301, 3010, 0, 4000]


@pytest.mark.parametrize("small", [0, 16])
@pytest.mark.parametrize("name", SIZES)
def test_plain_products_are_matrix_products(name, small, monkeypatch):
    """In several chunks, as sums of outer products and as batched products."""
    monkeypatch.setattr(node_pairs, "SMALL", small)
    monkeypatch.setattr(node_pairs, "CHUNK", 300)
    pairs = pairs_of(name)
    left, right = (rows(pairs.num_pairs, 3, strided=True) for _ in range(2))
    wanted = multiply_pairs(left.contiguous(), right.contiguous(), pairs)
    assert_same(plain.pair_product(left, right, pairs), wanted)


@pytest.mark.parametrize("name", SIZES)
def test_plain_gradients_of_node_pairs_are_those_of_autograd(name):
    pairs = pairs_of(name)
    left, right = (rows(pairs.num_pairs, 3).requires_grad_() for _ in range(2))
    grad, back = rows(pairs.num_pairs, 3), rows(len(pairs.first), 6)
    product = multiply_pairs(left.relu(), right.relu(), pairs)
    wanted = torch.autograd.grad(product, (left, right), grad)
    after = (left.detach().relu(), right.detach().relu())
    found = plain.pair_product_backward(grad, *after, pairs)
    torch.testing.assert_close(found, wanted)
    (wanted,) = torch.autograd.grad(plain.pool_pairs(left, pairs), left, back)
    torch.testing.assert_close(plain.pool_pairs_backward(back, pairs), wanted)


@pytest.mark.parametrize("name", SIZES)
def test_plain_pooled_products_are_those_of_autograd(name):
    pairs = pairs_of(name)
    left, right = (rows(pairs.num_pairs, 3).requires_grad_() for _ in range(2))
    back, after = rows(len(pairs.first), 6), (left.relu(), right.relu())
    pooled = plain.pool_pairs(multiply_pairs(*after, pairs), pairs)
    wanted = torch.autograd.grad(pooled, (left, right), back)
    after = [each.detach() for each in after]
    torch.testing.assert_close(plain.pool_product(*after, pairs), pooled.detach())
    found = plain.pool_product_backward(back, *after, pairs)
    torch.testing.assert_close(found, wanted)


DTYPES = pytest.mark.parametrize("dtype", [torch.float, torch.double])
WIDTHS = pytest.mark.parametrize("width", [1, 16, 70])


def some_edges():
    """Return the edge copies of a multigraph with self loops and an isolated node."""
    edge_index = torch.randint(9, (2, 40))
    edge_index[1, :4] = edge_index[0, :4]
    return edges_of(EgoNets(1)(edge_index, 10), edge_index.t())


@DTYPES
@WIDTHS
@pytest.mark.parametrize("biased", [False, True])
def test_gcn_kernels_agree(fast, dtype, width, biased):
    edges = some_edges()
    h = torch.randn(len(edges.by_target), width, dtype=dtype)
    scale = plain.gcn_scale(h, edges)
    torch.testing.assert_close(fast.gcn_scale(h, edges), scale)
    bias = torch.randn(width, dtype=dtype) if biased else None
    for end, groups in (
        (edges.source, edges.by_target),
        (edges.target, edges.by_source),
    ):
        got = fast.gcn_sum(h, scale, bias, end, groups)
        torch.testing.assert_close(got, plain.gcn_sum(h, scale, bias, end, groups))


@DTYPES
@WIDTHS
@pytest.mark.parametrize("with_edges", [False, True])
@pytest.mark.parametrize("padding", [None, 0, 7])
def test_pair_sums_agree(fast, dtype, width, with_edges, padding):
    edges = some_edges()
    ends = torch.randn(2, len(edges.by_target), width, dtype=dtype)
    rows = torch.randn(len(edges.by_edge), width, dtype=dtype) if with_edges else None
    count = edges.edge.numel() - (padding or 0)
    real = None if padding is None else torch.tensor(count)
    got, moments = fast.pair_sum(*ends, rows, edges, real)
    wanted, _ = plain.pair_sum(*ends, rows, edges)
    assert torch.equal(got, wanted)
    if count < 2:
        return
    norm = BatchNorm(width, dtype=dtype)
    found = fast.norm_constants(got, norm, real, moments)
    alike = plain.norm_constants(wanted, BatchNorm(width, dtype=dtype), real)
    torch.testing.assert_close(found[:4], alike[:4])


@DTYPES
@WIDTHS
def test_pna_pools_agree(fast, dtype, width):
    """With ties, empty groups, and padding rows at the end."""
    groups = some_edges().by_target
    count = int(groups.ptr[-1])
    message = torch.randn(count + 5, width, dtype=dtype)
    message[::2] = message[::2].round()
    pooled = plain.pna_pool(message, groups)
    torch.testing.assert_close(fast.pna_pool(message, groups), pooled)
    grad = torch.randn(len(groups), 6 * width, dtype=dtype)[:, width : 5 * width]
    wanted = plain.pna_pool_backward(grad, message, pooled, groups)
    got = fast.pna_pool_backward(grad, message, pooled, groups)
    torch.testing.assert_close(got, wanted)
    assert not got[count:].any()
