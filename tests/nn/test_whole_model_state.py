"""An uplifted model never answers for another graph, sample or thread."""

import copy
import gc
import threading
import weakref

import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from gnnak import EgoNets, GraphLoader, RandomWalks, SubgraphDrop, uplift
from gnnak.models import build_model
from gnnak.nn import UpliftedConv
from gnnak.nn.features import Categorical
from tests.strategies import graphs

NODES = 12


def ring(step: int = 1) -> torch.Tensor:
    """The circulant graph that joins every node with the node `step` places on."""
    start = torch.arange(NODES)
    once = torch.stack([start, (start + step) % NODES])
    return torch.cat([once, once.flip(0)], dim=1)


def through_numpy(edge_index: torch.Tensor, new: torch.Tensor) -> None:
    edge_index.numpy()[:] = new.numpy()


def through_dlpack(edge_index: torch.Tensor, new: torch.Tensor) -> None:
    torch.from_dlpack(edge_index.__dlpack__()).copy_(new)


WRITERS = {
    "in place": lambda edge_index, new: edge_index.copy_(new),
    "data": lambda edge_index, new: edge_index.data.copy_(new),
    "numpy": through_numpy,
    "dlpack": through_dlpack,
}


@pytest.mark.parametrize("inference", [False, True], ids=["normal", "inference"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_uplift_notices_every_way_to_overwrite_edge_index(write, inference):
    net, x = uplift(pyg.GIN(4, 4, 2)).eval(), torch.rand(NODES, 4)
    with torch.no_grad():
        wanted = {step: net(x, ring(step)) for step in (1, 3)}
    with torch.inference_mode(inference), torch.no_grad():
        buffer = ring()
        for step in (1, 3, 1, 3, 3):
            write(buffer, ring(step))
            assert torch.equal(net(x, buffer), wanted[step])


def uplifted_gin():
    net = uplift(pyg.GIN(4, 4, 2)).eval()
    return net, lambda batch: net(batch.x, batch.edge_index)


def named_network():
    net = build_model("gin-ak+", Categorical((1,)), None, 1).eval()
    return net, lambda batch: net(batch.x[:, :1].long(), batch.edge_index, None)


def uplifted_and_sampling():
    net = uplift(pyg.GIN(4, 4, 2), drop=SubgraphDrop("random", 99)).train()
    return net, lambda batch: net(batch.x, batch.edge_index)


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("make", [uplifted_gin, named_network, uplifted_and_sampling])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_models_notice_every_way_to_overwrite_the_edges_of_a_loader(write, make, pad):
    net, call = make()
    hops = net.extractor if make is named_network else EgoNets(2)
    x = torch.rand(NODES, 4)
    loaders = [
        GraphLoader([Data(x, ring(step))] * 2, 2, subgraphs=hops, pad=pad)
        for step in (1, 3)
    ]
    batch, other = (next(iter(loader)) for loader in loaders)
    edges = {1: batch.edge_index.clone(), 3: other.edge_index}
    for step in (1, 3, 1, 3, 3):
        write(batch.edge_index, edges[step])
        torch.manual_seed(0)
        wanted = call(Data(batch.x, edges[step].clone()))
        torch.manual_seed(0)
        assert torch.equal(call(batch), wanted)


def test_uplift_notices_a_change_of_the_array_that_edge_index_was_made_from():
    net, x = uplift(pyg.GIN(4, 4, 2)).eval(), torch.rand(NODES, 4)
    array = ring(1).numpy().copy()
    edge_index = torch.from_numpy(array)
    before = net(x, edge_index)
    array[:] = ring(3).numpy()
    assert torch.equal(net(x, edge_index), net(x, ring(3)))
    assert not torch.equal(net(x, edge_index), before)


@settings(max_examples=40, deadline=None)
@given(graphs(max_nodes=6), graphs(max_nodes=6))
def test_uplift_of_a_reused_buffer_equals_uplift_of_new_tensors(one, other):
    """Both graphs are written into one buffer, behind PyTorch's version counter."""
    torch.manual_seed(0)
    net = uplift(pyg.GCN(3, 3, 2), num_hops=1).eval()
    num_nodes = max(one[1], other[1], 1)
    x = torch.rand(num_nodes, 3)
    num_edges = min(one[0].size(1), other[0].size(1))
    edges = [graph[0][:, :num_edges].contiguous() for graph in (one, other)]
    buffer = edges[0].clone()
    with torch.inference_mode():
        wanted = [net(x, edge_index) for edge_index in edges]
        for position in (0, 1, 0):
            buffer.data.copy_(edges[position])
            assert torch.equal(net(x, buffer), wanted[position])


class TwoConvs(nn.Module):
    """Two convs; `call` computes the output from the model, the states and edges."""

    def __init__(self, call):
        super().__init__()
        self.one, self.two, self.call = pyg.GCNConv(4, 4), pyg.GCNConv(4, 4), call

    def forward(self, x, edge_index):
        return self.call(self, x, edge_index)


def rewire(net, x, edge_index):
    """Overwrite the graph between two convs, behind PyTorch's version counter."""
    x = net.one(x, edge_index)
    edge_index.numpy()[:] = ring(3).numpy()
    return net.two(x, edge_index)


def test_uplift_notices_a_graph_that_changes_between_two_layers():
    net, x = uplift(TwoConvs(rewire)).eval(), torch.rand(NODES, 4)
    wanted = net.two(net.one(x, ring(1)), ring(3))
    (batch,) = GraphLoader([Data(x, ring(1))], 1, subgraphs=EgoNets(2))
    for edge_index in (ring(1), batch.edge_index):
        assert torch.equal(net(x, edge_index), wanted)


@pytest.mark.parametrize("drop", [None, SubgraphDrop("farthest", 2)])
def test_uplift_trains_on_a_graph_that_it_evaluated_in_inference_mode(drop):
    net, edge_index = uplift(pyg.GIN(4, 4, 2), drop=drop), ring()
    x = torch.rand(NODES, 4)
    with torch.inference_mode():
        net(x, edge_index)
        net.eval()(x, edge_index)
    net.train()(x, edge_index).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.parametrize("num_hops", [1, RandomWalks(2, 2)], ids=["egonets", "walks"])
def test_uplift_trains_on_a_graph_made_in_inference_mode(num_hops):
    net, x = uplift(pyg.GIN(4, 4, 2), num_hops), torch.rand(NODES, 4)
    with torch.inference_mode():
        edge_index = ring()
    net(x, edge_index).sum().backward()


def random_nets() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    drop = SubgraphDrop("random", 1)
    nets = {
        "drop": uplift(pyg.GIN(4, 4, 3), 1, drop=drop),
        "walks": uplift(pyg.GIN(4, 4, 3), RandomWalks(2, 1)),
        "both": uplift(
            pyg.GIN(4, 4, 3), RandomWalks(4, 2), drop=SubgraphDrop("random")
        ),
    }
    return {name: net.double() for name, net in nets.items()}


def sampled_roots(net: nn.Module) -> list:
    """Record the subgraphs that each layer gets, one entry per call of a layer."""
    got: list = []
    for part in net.modules():
        if isinstance(part, UpliftedConv):
            part.layer.register_forward_pre_hook(
                lambda _, arguments: got.append(arguments[1].node.tolist())
            )
    return got


def by_parts(net, x, edge_index):
    for conv in net.convs:
        x = conv(x, edge_index)
    return x


CALLS = {
    "model": lambda net, *given: net(*given),
    "forward": lambda net, *given: net.forward(*given),
    "ModuleList": by_parts,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("name", ["drop", "walks", "both"])
def test_uplift_samples_once_per_pass_however_it_is_called(name, call):
    net = random_nets()[name]
    got, x, edge_index = sampled_roots(net), torch.rand(NODES, 4).double(), ring()
    for _ in range(6):
        call(net, x, edge_index)
    passes = [got[3 * i : 3 * i + 3] for i in range(6)]
    assert all(first == second == third for first, second, third in passes)
    assert len({str(layers[0]) for layers in passes}) > 1


@pytest.mark.parametrize("name", ["drop", "walks", "both"])
def test_uplift_samples_again_for_every_call_of_a_part(name):
    net = random_nets()[name]
    got, x, edge_index = sampled_roots(net), torch.rand(NODES, 4).double(), ring()
    net(x, edge_index)
    for _ in range(6):
        net.convs[1](x, edge_index)
    assert len({str(nodes) for nodes in got[2:]}) > 2


def test_a_part_that_is_called_after_the_model_gets_its_own_sample():
    net = uplift(TwoConvs(lambda net, *given: net.one(*given)), RandomWalks(2, 1))
    got, x, edge_index = sampled_roots(net), torch.rand(NODES, 4), ring()
    for _ in range(6):
        net(x, edge_index)
        net.two(x, edge_index)
    assert any(got[i] != got[i + 1] for i in range(0, 12, 2))


def copying_net() -> nn.Module:
    def call(net, x, edge_index):
        return net.two(net.one(x, edge_index.clone()), edge_index.clone())

    return uplift(TwoConvs(call), RandomWalks(2, 1))


def test_layers_share_a_sample_if_each_layer_gets_a_copy_of_edge_index():
    net = copying_net()
    got, x, edge_index = sampled_roots(net), torch.rand(NODES, 4), ring()
    for _ in range(6):
        net(x, edge_index)
    assert all(got[i] == got[i + 1] for i in range(0, 12, 2))
    assert len({str(nodes) for nodes in got}) > 1


def test_a_model_releases_the_graph_of_freed_copies_after_its_call():
    net, seen = copying_net(), []
    for part in (net.one, net.two):
        part.layer.register_forward_pre_hook(
            lambda _, arguments: seen.append(weakref.ref(arguments[1]))
        )
    with torch.no_grad():
        net(torch.rand(NODES, 4), ring())
    gc.collect()
    assert len(seen) == 2
    assert all(reference() is None for reference in seen)


def test_uplift_samples_once_for_two_uses_of_a_conv_in_one_pass():
    def call(net, x, edge_index):
        return net.one(net.one(x, edge_index), edge_index)

    net = uplift(TwoConvs(call), RandomWalks(2, 1))
    got, edge_index = sampled_roots(net), ring()
    for _ in range(4):
        net(torch.rand(NODES, 4), edge_index)
    assert all(got[i] == got[i + 1] for i in (0, 2, 4, 6))
    assert len({str(nodes) for nodes in got}) > 1


def test_uplift_samples_again_after_a_pass_that_failed():
    net = random_nets()["walks"]
    got, x, edge_index = sampled_roots(net), torch.rand(NODES, 4).double(), ring()
    with pytest.raises(ValueError, match=r"x has shape \[12, 5\]"):
        net(torch.rand(NODES, 5).double(), edge_index)
    for _ in range(6):
        net.forward(x, edge_index)
    assert len({str(nodes) for nodes in got}) > 1


@pytest.mark.heavy
def test_copies_for_data_parallel_run_in_threads_like_the_model():
    """`DataParallel` copies a model shallowly, and runs the copies in threads."""
    net = uplift(pyg.GIN(4, 4, 2)).eval()
    copies = [_replicate(net) for _ in range(4)]
    inputs = [(torch.rand(NODES, 4), ring(step)) for step in (1, 2, 3, 5)]
    wanted = [net(*given) for given in inputs]
    wrong = []

    def run(copied, given, alone):
        for _ in range(100):
            if not torch.equal(copied(*given), alone):
                wrong.append(given)

    threads = [
        threading.Thread(target=run, args=arguments)
        for arguments in zip(copies, inputs, wanted, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _replicate(module: nn.Module) -> nn.Module:
    """Copy a module as `torch.nn.parallel.replicate` does, which needs GPUs."""
    replica = module._replicate_for_data_parallel()
    for name, child in module._modules.items():
        replica._modules[name] = None if child is None else _replicate(child)
    for name, weight in module._parameters.items():
        setattr(replica, name, weight)
    return replica


def test_a_copy_of_an_uplifted_model_has_its_own_samples():
    net = random_nets()["walks"]
    x = torch.rand(NODES, 4).double()
    net(x, ring())
    copied = copy.deepcopy(net)
    assert copied.convs[0].shared is not net.convs[0].shared
    assert copied.convs[0].shared is copied.convs[2].shared
