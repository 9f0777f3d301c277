"""Gates and pools: gradients, second gradients, and strided inputs."""

import pytest
import torch

from gnnak import EgoNets
from gnnak.fast.kernels.records import GatedPool
from gnnak.fast.layers.general import gated_pools
from gnnak.optional import interprets_triton

EDGES = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 2, 3]])


def pools_of(states, first, second):
    """Return the gated and the plain sums of node copies, and the roots' states."""
    subgraphs = EgoNets(1)(EDGES, 4)
    pools = [
        GatedPool(subgraphs.by("subgraph"), subgraphs.subgraph),
        GatedPool(subgraphs.by("node"), subgraphs.node),
    ]
    sums, roots = gated_pools(states, (first, second), subgraphs.hop, pools, subgraphs)
    return *sums, roots


def tensors(strided):
    """Return states and two tables of gates; strided: transposed matrices."""
    copies = EgoNets(1)(EDGES, 4).num_copies
    shapes = [(copies, 3), (2, 3), (2, 3)]
    made = [torch.randn(shape[::-1] if strided else shape).double() for shape in shapes]
    return [(each.t() if strided else each).requires_grad_() for each in made]


@pytest.mark.parametrize("strided", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("gated", [pytest.param(False, marks=pytest.mark.slow), True])
def test_gated_pools_can_be_differentiated_twice(gated, strided):
    states, first, second = tensors(strided)
    given = (states, first, second if gated else None)
    # Triton's interpreter is slow: there, check only random directions.
    fast = interprets_triton()
    assert torch.autograd.gradcheck(pools_of, given, fast_mode=fast)
    assert torch.autograd.gradgradcheck(pools_of, given, fast_mode=fast)


def test_gated_pools_multiply_and_sum():
    states, first, second = (each.detach() for each in tensors(False))
    subgraphs = EgoNets(1)(EDGES, 4)
    gates = first[subgraphs.hop]
    wanted = torch.zeros(4, 3).double().index_add(0, subgraphs.subgraph, gates * states)
    context = second[subgraphs.hop] * states
    others = torch.zeros(4, 3).double().index_add(0, subgraphs.node, context)
    found = pools_of(states, first, second)
    torch.testing.assert_close(found[0], wanted)
    torch.testing.assert_close(found[1], others)
    torch.testing.assert_close(found[2], states[subgraphs.centroid])


EXPANDED = torch.tensor([[2.0]]).double()
GRADIENTS = {
    "expanded": lambda grad: EXPANDED.expand_as(grad),
    "transposed": lambda grad: grad.t().contiguous().t(),
    "columns of a wider matrix": lambda grad: grad.repeat(1, 2)[:, : grad.size(1)],
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_gated_pools_take_gradients_that_are_not_contiguous(which, name):
    given = tensors(False)
    out = pools_of(*given)[which]
    grad = GRADIENTS[name](torch.randn_like(out))
    found, wanted = (
        torch.autograd.grad(out, given, each, retain_graph=True, allow_unused=True)
        for each in (grad, grad.contiguous())
    )
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
