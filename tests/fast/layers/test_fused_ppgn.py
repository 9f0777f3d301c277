"""Fused blocks and sums of PPGN against plain PyTorch."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch

from gnnak.backend import PLAIN, use_backend
from gnnak.fast import make_backend
from gnnak.fast.layers.ppgn import can_fuse_block, centred_linear
from gnnak.fast.step.recorder import synchronisations_recorded
from gnnak.nn import PPGN
from gnnak.nn.base.ppgn import PPGNBlock, find_pairs
from tests.fast.backends import assert_fused_equals_plain, outcome
from tests.gpu import needs_gpu
from tests.models.zoo import molecules, small_network

WIDTH = 3
FUSED = make_backend(lambda _: True).implementations


def graphs(dtype=torch.double, device="cpu", width=WIDTH):
    """Return graphs of 1, 4, 2, 9 and 4 nodes, all nodes in random order."""
    torch.manual_seed(1)
    batch = torch.repeat_interleave(torch.tensor([1, 4, 2, 9, 4]))
    batch = batch[torch.randperm(len(batch))]
    edge_index = torch.randint(len(batch), (2, 300))
    edge_index = edge_index[:, batch[edge_index[0]] == batch[edge_index[1]]]
    states = [torch.randn(n, width) for n in (len(batch), edge_index.size(1))]
    x, e = (each.to(device, dtype).requires_grad_() for each in states)
    return x, edge_index.to(device), e, batch.to(device)


def block_and_states():
    torch.manual_seed(0)
    pairs = find_pairs(graphs()[3])
    x = torch.randn(pairs.num_pairs, WIDTH, dtype=torch.double, requires_grad=True)
    return PPGNBlock(WIDTH).double(), x, pairs


@pytest.mark.parametrize("num_layers", [1, 2])
def test_fused_ppgn_matches_plain_ppgn(num_layers, fused_operations):
    assert_fused_equals_plain(PPGN(WIDTH, num_layers).double(), *graphs())
    assert fused_operations.count("update_pairs") == num_layers - 1
    assert fused_operations.count("pool_block") == 1


def test_fused_ppgn_on_no_node_gives_every_parameter_a_gradient(fused_operations):
    gnn, given = PPGN(WIDTH).double().eval(), graphs()
    none = torch.zeros(0, dtype=torch.long)
    gnn(given[0][:0], given[1][:, :0], given[2][:0], none).sum().backward()
    assert {"update_pairs", "pool_block"} <= set(fused_operations)
    assert all(p.grad is not None and not p.grad.any() for p in gnn.parameters())


BLOCKS = {
    "block": (FUSED["update_pairs"], lambda block, x, pairs: block(x, pairs)),
    "pooled block": (FUSED["pool_block"], PPGNBlock.pool_block),
}
"""By name, a fused function and what it computes, of a block, states and pairs."""


@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_of_fused_blocks_can_be_differentiated_again(name):
    block, x, pairs = block_and_states()
    given = [x, *block.parameters()]

    def slopes(call):
        out = call(block, x, pairs)
        weights = torch.linspace(-1, 2, out.numel()).view_as(out)
        (grad,) = torch.autograd.grad((out * weights).sum(), x, create_graph=True)
        total = (grad.square() + x).sum()
        return torch.autograd.grad(total, given, allow_unused=True)

    fused, plain = BLOCKS[name]
    found = slopes(fused)
    with use_backend(PLAIN):
        wanted = slopes(plain)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_centred_linear_is_a_linear(rows):
    given = torch.randn(rows, 2, WIDTH).double(), torch.randn(4, WIDTH).double()
    weights, found = torch.randn(rows, 2, 4).double(), []
    for linear in (centred_linear, nn.functional.linear):
        given = [each.detach().requires_grad_() for each in given]
        out = linear(*given)
        found.append([out, *torch.autograd.grad((out * weights).sum(), given)])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(("name", "wanted"), [("block", 6), ("pooled block", 5)])
def test_fused_blocks_save_few_states_per_pair_for_backward(name, wanted):
    block, x, pairs = block_and_states()
    saved = {}

    def save(tensor):
        if tensor.size(0) == pairs.num_pairs:
            saved[tensor.data_ptr()] = tensor.numel() / tensor.size(0) / WIDTH
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        BLOCKS[name][0](block, x, pairs)
    assert sum(saved.values()) == wanted


@pytest.mark.parametrize("name", ["block", "pooled block"])
def test_fused_blocks_need_no_gradient_of_their_input(name):
    (block, x, pairs), (call, _) = block_and_states(), BLOCKS[name]
    wanted, found = (
        torch.autograd.grad(call(block, rows, pairs).square().sum(), block.parameters())
        for rows in (x, x.detach())
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["block", "pooled block"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half])
def test_fused_blocks_in_autocast_are_as_exact_as_their_dtype_allows(dtype, name):
    block, x, pairs = block_and_states()
    fused, plain = BLOCKS[name]
    exact = plain(block, x, pairs)
    block, x = copy.deepcopy(block).float(), x.detach().float().requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        assert can_fuse_block(block, x)
        out = fused(block, x, pairs)
    assert out.dtype == dtype
    off = (out.double() - exact).norm() / exact.norm()
    assert off < 4 * torch.finfo(dtype).eps
    out.float().sum().backward()
    assert x.grad.dtype == block.mix.weight.grad.dtype == torch.float
    assert x.grad.isfinite().all()


def test_can_fuse_block_refuses_changed_blocks():
    block, x, _ = block_and_states()
    assert can_fuse_block(block, x)
    assert not can_fuse_block(block, x.float())
    hooked, replaced, without = (copy.deepcopy(block) for _ in range(3))
    hooked.left[1].register_forward_hook(lambda *_: None)
    replaced.right[3] = nn.Tanh()
    without.mix.bias = None
    assert not any(can_fuse_block(each, x) for each in (hooked, replaced, without))


def test_ppgn_runs_hooks_of_blocks_and_inside_of_them(fused_operations):
    gnn, seen = PPGN(WIDTH, 2).double(), []
    gnn.blocks[0].mix.register_forward_hook(lambda *_: seen.append("inside"))
    gnn.blocks[1].register_forward_hook(lambda *_: seen.append("last"))
    gnn(*graphs())
    assert seen == ["inside", "last"]
    assert fused_operations.count("update_pairs") == 1
    assert "pool_block" not in fused_operations


@pytest.mark.parametrize("name", ["ppgn-ak", "ppgn-ak+"])
def test_layers_share_the_pairs_of_nodes(name, fused_operations, monkeypatch):
    found = []

    def find(batch):
        found.append(find_pairs(batch))
        return found[-1]

    monkeypatch.setattr("gnnak.fast.layers.ppgn.find_pairs", find)
    network = small_network(name).train()
    batch = Batch.from_data_list(molecules())
    out = network(batch)
    assert len(found) == 1
    assert fused_operations.count("embed") == len(network.layers) > 1
    with use_backend(PLAIN):
        wanted = network(batch)
    torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-10)


@needs_gpu
def test_fused_ppgn_on_a_gpu_is_as_exact_as_plain_ppgn():
    gnn = PPGN(32, 2).cuda()
    found = outcome(gnn, *graphs(torch.float, "cuda", 32))
    wanted = outcome(gnn.double(), *graphs(torch.double, "cuda", 32), fused=False)
    for name, theirs in wanted.items():
        off = (found[name].double() - theirs.double()).norm()
        # The BatchNorm of the readout cancels this bias: its gradient is rounding.
        least = 1e-5 if name == "norm.bias" else 1e-6
        assert off <= 1e-3 * theirs.double().norm() + least, name


@needs_gpu
def test_ppgn_waits_for_a_gpu_once():
    gnn, given = PPGN(32, 2).cuda(), graphs(torch.float, "cuda", 32)
    gnn(*given).sum().backward()
    with synchronisations_recorded() as waits:
        gnn(*given).sum().backward()
    assert len(waits) == 1
