"""Fused layers of two processes compute what one computes on both of their graphs."""

from itertools import product
from operator import itemgetter

import pytest
import torch
from torch import nn

from gnnak.backend import use_backend
from gnnak.nn.norm import padded_sync_norms
from gnnak.subgraphs import egonets
from tests.fast.backends import fused_everywhere, num_fused_layers
from tests.fast.layers.fused_layers import LAYERS, hops_of, inputs, make_layer
from tests.two_processes import results_of

NAMES = ["gin-ak+", "two convs", "two blocks", "no centroid"]
SIZES = ((6, 14), (3, 5), (1, 1))
"""Numbers of nodes and edges of the graph of each process, and of a third graph."""


def graphs(name):
    """Return node states, edges and edge states of a graph for each of `SIZES`."""
    torch.manual_seed(0)
    found = []
    for nodes, edges in SIZES:
        edge_index = torch.randint(nodes, (2, edges))
        x, _, e = inputs(edge_index, nodes, **hops_of(LAYERS[name]))
        found.append((x, edge_index, e))
    return found


def outcome(name, x, edge_index, e, converted=False):
    """Return output, gradient of `x`, gradients of weights, and statistics."""
    torch.manual_seed(1)
    used, layer = [], make_layer(**LAYERS[name])
    if converted:
        layer = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    norms = [norm for norm in layer.modules() if isinstance(norm, nn.SyncBatchNorm)]
    x = x.clone().requires_grad_()
    # PyTorch's SyncBatchNorm needs a GPU.
    with use_backend(fused_everywhere(used)), padded_sync_norms(norms):
        out = layer(x, egonets(edge_index, x.size(0), 2), e)
        (out * out.detach().cos()).sum().backward()
    assert num_fused_layers(used) == 1
    grads = [weight.grad for weight in layer.parameters() if weight.grad is not None]
    return out.detach(), x.grad, grads, dict(layer.named_buffers())


def every_layer(rank, others):
    """Return the outcomes of all layers; process 1 has the graph `others[i]`."""
    return [
        [
            outcome(name, *graphs(name)[other if rank else 0], converted)
            for converted in (False, True)
        ]
        for name in NAMES
        for other in others
    ]


@pytest.mark.slow
def test_fused_layers_of_two_processes_equal_those_of_one(tmp_path):
    others, close = (1, 2), {"rtol": 1e-9, "atol": 1e-9}
    found = iter(zip(*results_of(every_layer, tmp_path, others), strict=True))
    for name, other in product(NAMES, others):
        (x, ends, e), (more_x, more_ends, more_e) = itemgetter(0, other)(graphs(name))
        ends = torch.cat([ends, more_ends + len(x)], dim=1)
        given = torch.cat([x, more_x]), ends, torch.cat([e, more_e])
        *joined, grads, buffers = outcome(name, *given)
        for here, there in zip(*next(found), strict=True):
            for mine, yours, wanted in zip(here, there, joined, strict=False):
                torch.testing.assert_close(torch.cat([mine, yours]), wanted, **close)
            sums = [a + b for a, b in zip(here[2], there[2], strict=True)]
            torch.testing.assert_close(sums, grads, **close)
            torch.testing.assert_close([here[3], there[3]], [buffers] * 2, **close)
