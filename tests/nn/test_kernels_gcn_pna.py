"""Triton's kernels for GCN and PNA* against the plain ones, in its interpreter."""

import os

import pytest
import torch

from gnnak.nn.fused.lift import edges_of
from gnnak.nn.kernels import kernels_for, plain
from gnnak.subgraphs import EgoNets

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1",
    reason="runs kernels in Triton's interpreter: set TRITON_INTERPRET=1",
)
DTYPES = pytest.mark.parametrize("dtype", [torch.float, torch.double])
WIDTHS = pytest.mark.parametrize("width", [1, 16, 70])


def some_edges():
    """A multigraph with self loops and a node alone."""
    edge_index = torch.randint(9, (2, 40))
    edge_index[1, :4] = edge_index[0, :4]
    return edges_of(EgoNets(1)(edge_index, 10))


def copies_of(edges):
    return len(edges.by_target)


def fast():
    kernels = kernels_for(torch.zeros(1))
    assert kernels is not plain
    return kernels


@DTYPES
@WIDTHS
@pytest.mark.parametrize("biased", [False, True])
def test_gcn_kernels_agree(dtype, width, biased):
    edges = some_edges()
    h = torch.randn(copies_of(edges), width, dtype=dtype)
    scale = plain.gcn_scale(h, edges)
    torch.testing.assert_close(fast().gcn_scale(h, edges), scale)
    bias = torch.randn(width, dtype=dtype) if biased else None
    for end, groups in (
        (edges.source, edges.by_target),
        (edges.target, edges.by_source),
    ):
        got = fast().gcn_sum(h, scale, bias, end, groups)
        torch.testing.assert_close(got, plain.gcn_sum(h, scale, bias, end, groups))
