"""The Triton kernels of GCN and PNA* against the plain ones, in the interpreter."""

import pytest
import torch

from gnnak.fast.kernels import plain
from gnnak.fast.layers.lift import edges_of
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs import EgoNets

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
