"""Layers that are recomputed in the backward pass use the samples of their pass.

The last tests are on a GPU: static buffers, recomputed layers, CUDA graphs.
"""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg

from gnnak import RandomWalks, SubgraphDrop, uplift
from gnnak.errors import SubgraphError
from tests.gpu import needs_gpu
from tests.nn.test_whole_model_state import NODES, ring


class Checkpointed(nn.Module):
    """Convs whose layers are recomputed in the backward pass; `tied` = one conv."""

    def __init__(
        self,
        reentrant: bool | None = None,
        dropout: float = 0.3,
        tied: bool = False,
        **options,
    ):
        super().__init__()
        convs = [pyg.GATConv(4, 4, dropout=dropout) for _ in range(3)]
        self.convs = nn.ModuleList(convs[:1] * 3 if tied else convs)
        self.reentrant, self.dropout, self.options = reentrant, dropout, options

    def block(self, conv, x, edge_index):
        x = conv(x, edge_index)
        return nn.functional.dropout(x, self.dropout, self.training).tanh()

    def forward(self, x, edge_index):
        for conv in self.convs:
            if self.reentrant is None:
                x = self.block(conv, x, edge_index)
            else:
                options = {"use_reentrant": self.reentrant, **self.options}
                x = checkpoint(self.block, conv, x, edge_index, **options)
        return x


def gradients_of_two_passes(net, inputs) -> torch.Tensor:
    torch.manual_seed(7)
    loss = sum((i + 1) * net(*given).sin().sum() for i, given in enumerate(inputs))
    loss.backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


SAMPLERS = {
    "drop": {"num_hops": 1, "drop": SubgraphDrop("random", 1)},
    "farthest": {"num_hops": 1, "drop": SubgraphDrop("farthest", 1)},
    "walks": {"num_hops": RandomWalks(2, 1)},
    "both": {"num_hops": RandomWalks(4, 2), "drop": SubgraphDrop("random", 1)},
}


NETS = {
    "dropout": {"dropout": 0.3},
    "no dropout": {"dropout": 0.0},
    "tied": {"dropout": 0.0, "tied": True},
}


@pytest.mark.parametrize("same_graph", [True, False])
@pytest.mark.parametrize("layers", NETS.values(), ids=NETS)
@pytest.mark.parametrize("options", SAMPLERS.values(), ids=SAMPLERS)
def test_checkpointed_layers_replay_samples_of_two_passes(options, layers, same_graph):
    plain = uplift(Checkpointed(**layers), **options).double()
    x = torch.rand(NODES, 4).double().requires_grad_()
    graphs = [ring(1), ring(1)] if same_graph else [ring(1), ring(5)]
    inputs = [(x, graphs[0]), (x, graphs[0] if same_graph else graphs[1])]
    wanted = gradients_of_two_passes(plain, inputs)
    after = torch.get_rng_state()
    for reentrant in (True, False):
        net = uplift(Checkpointed(reentrant, **layers), **options).double()
        net.load_state_dict(plain.state_dict())
        got = gradients_of_two_passes(net, inputs)
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)
        assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("options", SAMPLERS.values(), ids=SAMPLERS)
def test_a_checkpointed_model_replays_the_samples_of_two_passes(options):
    plain = uplift(Checkpointed(), **options).double()
    x = torch.rand(NODES, 4).double()
    wanted = gradients_of_two_passes(plain, [(x, ring()), (x, ring())])
    plain.zero_grad()

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = plain

        def forward(self, *given):
            return checkpoint(self.net, *given, use_reentrant=False)

    got = gradients_of_two_passes(Whole(), [(x, ring()), (x, ring())])
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_checkpointed_layers_replay_samples_in_another_thread():
    """On a GPU, the backward pass runs in a thread of its own."""
    options = SAMPLERS["both"]
    plain = uplift(Checkpointed(), **options).double()
    net = uplift(Checkpointed(reentrant=False), **options).double()
    net.load_state_dict(plain.state_dict())
    given = torch.rand(NODES, 4).double(), ring()
    wanted = gradients_of_two_passes(plain, [given, given])
    torch.manual_seed(7)
    loss = net(*given).sin().sum() + 2 * net(*given).sin().sum()
    backward = threading.Thread(target=loss.backward)
    backward.start()
    backward.join()
    got = torch.cat([p.grad.flatten() for p in net.parameters()])
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", SAMPLERS.values(), ids=SAMPLERS)
def test_checkpointed_layers_replay_the_samples_of_two_graphs_with_one_seed(options):
    """Both passes begin with the same random state, on graphs of equal size."""
    plain = uplift(Checkpointed(dropout=0.0), **options).double()
    net = uplift(Checkpointed(False, dropout=0.0), **options).double()
    net.load_state_dict(plain.state_dict())
    x, wanted = torch.rand(NODES, 4).double(), []
    for model in (plain, net):
        loss = torch.zeros(()).double()
        for step in (1, 5):
            torch.manual_seed(7)
            loss = loss + step * model(x, ring(step)).sin().sum()
        loss.backward()
        wanted.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(wanted[1], wanted[0], rtol=1e-12, atol=1e-12)


def test_a_replayed_sample_is_freed_with_its_graph_in_any_thread():
    """The thread of the backward pass stays alive, as that of a GPU does."""
    net = uplift(Checkpointed(False, dropout=0.0), **SAMPLERS["walks"]).double()
    edge_index, seen = ring(), []
    loss = net(torch.rand(NODES, 4).double(), edge_index).sum()
    net.convs[0].shared.subgraphs.forget()
    net.convs[0].layer.register_forward_pre_hook(
        lambda _, arguments: seen.append(weakref.ref(arguments[1]))
    )
    with ThreadPoolExecutor(1) as pool:
        pool.submit(loss.backward).result()
        assert len(seen) == 1
        del loss, edge_index
        gc.collect()
        assert seen[0]() is None


def test_a_sample_that_cannot_be_replayed_is_an_error():
    net = uplift(Checkpointed(False, preserve_rng_state=False), **SAMPLERS["walks"])
    loss = net(torch.rand(NODES, 4), ring()).sum()
    with pytest.raises(SubgraphError, match="with preserve_rng_state=True"):
        loss.backward()


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
