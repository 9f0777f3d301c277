"""GINE's sums from node states, compared with lifting and messages one by one."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gnnak import EgoNets
from gnnak.fast.layers.general import Copies, lifted_gine_sum
from gnnak.fast.layers.parts import edges_of
from gnnak.graphs.named import undirected
from gnnak.optional import interprets_triton

PATH, NODES = undirected([(0, 1), (1, 2), (2, 3), (3, 1)], 4)
FORMS = {"none": (None, False), "concat": (2, False), "add": (3, True)}


def inputs(width, add, dtype=None):
    """Node states, a hop table, edge states and eps; copies and edges."""
    subgraphs = EgoNets(2)(PATH, NODES)
    torch.manual_seed(0)
    total = 3 if width is None or add else 3 + width
    shapes = [(NODES, 3), width and (3, width), (PATH.size(1), total), (1,)]
    tensors = [
        shape and torch.randn(shape, dtype=torch.double, requires_grad=True)
        for shape in shapes
    ]
    copies = Copies(subgraphs.node, subgraphs.hop, subgraphs.by("node"), add, dtype)
    return tensors, copies, edges_of(subgraphs, tensors[2])


def by_hand(x, table, e, eps, copies, edges):
    """The same sums, with a loop over the edges of all subgraphs."""
    c = x[copies.node]
    if table is not None:
        hops = table[copies.rows]
        c = c + hops if copies.add else torch.cat([c, hops], dim=1)
    rows = [(1 + eps) * row for row in c]
    for source, target, edge in zip(
        edges.source, edges.target, edges.edge, strict=True
    ):
        rows[target] = rows[target] + torch.relu(c[source] + e[edge])
    return torch.stack(rows)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_sums_and_gradients_equal_a_loop_over_edges(form):
    tensors, copies, edges = inputs(*form)
    found, _ = lifted_gine_sum(*tensors, copies, edges)
    wanted = by_hand(*tensors, copies, edges)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    weight = torch.randn_like(wanted)
    given = [tensor for tensor in tensors if tensor is not None]
    grads = torch.autograd.grad((found * weight).sum(), given)
    expected = torch.autograd.grad((wanted * weight).sum(), given)
    torch.testing.assert_close(grads, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_gradients_can_be_differentiated_again(form):
    if interprets_triton() and form != FORMS["add"]:
        pytest.skip("Triton's interpreter is slow; plain PyTorch runs all forms")
    tensors, copies, edges = inputs(*form)

    def summed(*given):
        return lifted_gine_sum(*given, copies, edges)[0]

    assert gradcheck(summed, tensors, fast_mode=True)
    if not interprets_triton():  # the second derivative runs in plain PyTorch anyway
        assert gradgradcheck(summed, tensors, fast_mode=True)


def test_frozen_inputs_get_no_gradient():
    tensors, copies, edges = inputs(2, False)
    x, table, e, eps = (tensor.detach() for tensor in tensors)
    e.requires_grad_()
    lifted_gine_sum(x, table, e, eps, copies, edges)[0].sum().backward()
    assert e.grad is not None
    assert x.grad is table.grad is eps.grad is None


def test_sums_have_the_given_dtype_and_gradients_that_of_the_inputs():
    tensors, copies, edges = inputs(2, False, torch.bfloat16)
    tensors = [tensor.detach().float().requires_grad_() for tensor in tensors]
    found, _ = lifted_gine_sum(*tensors, copies, edges)
    assert found.dtype == torch.bfloat16
    found.float().sum().backward()
    assert {tensor.grad.dtype for tensor in tensors} == {torch.float32}
    wanted = by_hand(*tensors, copies, edges)
    torch.testing.assert_close(found.float(), wanted, rtol=0.02, atol=0.05)
