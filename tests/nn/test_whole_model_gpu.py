"""Uplifted models on a GPU: static buffers, recomputed layers, CUDA graphs."""

import pytest
import torch
from torch_geometric import nn as pyg

from gnnak import uplift
from tests.gpu import needs_gpu
from tests.nn.test_replayed_samples import (
    NETS,
    SAMPLERS,
    Checkpointed,
    gradients_of_two_passes,
)
from tests.nn.test_whole_model_state import NODES, ring


@needs_gpu
@pytest.mark.parametrize("inference", [False, True], ids=["normal", "inference"])
def test_uplift_notices_a_static_buffer_that_is_overwritten(inference):
    net, x = uplift(pyg.GIN(4, 4, 2).cuda()).eval(), torch.rand(NODES, 4).cuda()
    assert {p.device.type for p in net.parameters()} == {"cuda"}
    with torch.no_grad():
        wanted = {step: net(x, ring(step).cuda()) for step in (1, 3)}
    with torch.inference_mode(inference), torch.no_grad():
        buffer = ring().cuda()
        for step in (1, 3, 1, 3, 3):
            buffer.data.copy_(ring(step))
            torch.testing.assert_close(net(x, buffer), wanted[step])


@needs_gpu
@pytest.mark.parametrize("layers", NETS.values(), ids=NETS)
@pytest.mark.parametrize("options", SAMPLERS.values(), ids=SAMPLERS)
def test_checkpointed_layers_replay_the_samples_of_two_passes_on_a_gpu(options, layers):
    plain = uplift(Checkpointed(**layers), **options).double().cuda()
    net = uplift(Checkpointed(reentrant=False, **layers), **options).double().cuda()
    net.load_state_dict(plain.state_dict())
    given = torch.rand(NODES, 4).double().cuda(), ring().cuda()
    wanted = gradients_of_two_passes(plain, [given, given])
    got = gradients_of_two_passes(net, [given, given])
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


@needs_gpu
def test_a_pass_on_cached_egonets_can_be_captured_as_a_cuda_graph():
    net = uplift(pyg.GIN(4, 4, 2).cuda()).eval()
    x, edge_index = torch.rand(NODES, 4).cuda(), ring().cuda()
    with torch.no_grad():
        wanted = net(x, edge_index)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            net(x, edge_index)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = net(x, edge_index)
        graph.replay()
    torch.testing.assert_close(out, wanted)
