import copy

import pytest
import torch
from torch_geometric.data import Batch, Data

from gnnak.backend import PLAIN, use_backend
from gnnak.datasets import load_dataset
from gnnak.errors import EdgeAttrError, OptionError
from gnnak.fast.backend import cpu_backend
from gnnak.nn import PPGN
from gnnak.nn.base.ppgn import find_pairs, multiply_pairs, pair_states
from gnnak.nn.copies import segment_reduce
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)

GRAPHS = small_graphs(channels=4, edge_channels=4)
NOT_EMPTY = [name for name in GRAPHS if name != "empty"]


def make_gnn(num_layers=2):
    torch.manual_seed(0)
    gnn = PPGN(4, num_layers).double()
    with torch.no_grad():
        gnn.norm.running_mean.normal_()
        gnn.norm.running_var.uniform_(0.5, 2)
    return gnn


def whole_batch():
    return Batch.from_data_list(list(GRAPHS.values()))


def dense_of(data):
    n, width = data.x.shape
    dense = torch.zeros(n, n, width, dtype=data.x.dtype)
    for i in range(n):
        dense[i, i] += data.x[i]
    for number, (source, target) in enumerate(data.edge_index.t().tolist()):
        dense[target, source] += data.edge_attr[number]
    return dense


def graph_by_graph(gnn, graphs):
    """The equations on each graph alone; only BatchNorm sees more than one graph."""
    rows = []
    for data in graphs:
        dense = dense_of(data)
        n = dense.size(0)
        for block in gnn.blocks:
            left, right = block.left(dense), block.right(dense)
            product = torch.stack(
                [left[..., c] @ right[..., c] for c in range(4)], dim=2
            )
            dense = block.mix(torch.cat([dense, product], dim=2))
        for i in range(n):
            others = [dense[i, j] for j in range(n) if j != i]
            zero = torch.zeros(4, dtype=torch.double)
            rows.append(torch.cat([dense[i, i], sum(others, zero)]))
    pairs = torch.stack(rows)
    norm = gnn.norm
    mean, variance = norm.running_mean, norm.running_var
    if gnn.training:
        mean = pairs.mean(dim=0)
        variance = pairs.var(dim=0, unbiased=False)
    pairs = (pairs - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias
    return gnn.readout(pairs)


def run(gnn, data):
    return gnn(data.x, data.edge_index, data.edge_attr, data.batch)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_ppgn_equals_its_equations_graph_by_graph(training):
    gnn = make_gnn().train(training)
    wanted = graph_by_graph(gnn, GRAPHS.values())
    got = run(gnn, whole_batch())
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NOT_EMPTY)
def test_ppgn_equals_its_equations_on_one_graph(name):
    gnn = make_gnn().eval()
    data = GRAPHS[name]
    wanted = graph_by_graph(gnn, [data])
    got = gnn(data.x, data.edge_index, data.edge_attr)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_ppgn_without_edge_attributes_reads_ones():
    gnn, data = make_gnn().eval(), GRAPHS["directed"]
    ones = torch.ones_like(data.edge_attr)
    got, wanted = gnn(data.x, data.edge_index), gnn(data.x, data.edge_index, ones)
    assert torch.equal(got, wanted)


def test_ppgn_reads_the_direction_of_an_edge():
    gnn, data = make_gnn().eval(), GRAPHS["directed"]
    got = gnn(data.x, data.edge_index, data.edge_attr)
    assert not torch.allclose(got, gnn(data.x, data.edge_index.flip(0), data.edge_attr))


def outcome(gnn, data, call):
    gnn = copy.deepcopy(gnn).train()
    x, e = (t.clone().requires_grad_() for t in (data.x, data.edge_attr))
    out = call(gnn, x, data.edge_index, e, data.batch)
    (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum().backward()
    found = {name: p.grad for name, p in gnn.named_parameters()}
    return found | dict(gnn.named_buffers()) | {"out": out, "x": x.grad, "e": e.grad}


def random_batch():
    """Graphs of 9, 1, 2, 9, 13 and 2 nodes in random order; graph 3 has no node."""
    torch.manual_seed(1)
    batch = torch.repeat_interleave(torch.tensor([9, 1, 2, 0, 9, 13, 2]))
    batch = batch[torch.randperm(batch.numel())]
    edge_index = torch.randint(batch.numel(), (2, 2000))
    edge_index = edge_index[:, batch[edge_index[0]] == batch[edge_index[1]]]
    x, e = (torch.randn(n, 4).double() for n in (batch.numel(), edge_index.size(1)))
    return Data(x=x, edge_index=edge_index, edge_attr=e, batch=batch)


@pytest.mark.parametrize("backend", [PLAIN, cpu_backend()], ids=lambda b: b.name)
@pytest.mark.parametrize("make", [whole_batch, random_batch])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_ppgn_equals_ppgn_with_padding(make, num_layers, backend):
    gnn, data = make_gnn(num_layers), make()
    wanted = outcome(gnn, data, padded_ppgn)
    with use_backend(backend):
        got = outcome(gnn, data, lambda gnn, *given: gnn(*given))
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_ppgn_norms_over_the_real_nodes():
    """Fault of the published code: BatchNorm of PPGN over padding."""
    gnn, data = make_gnn(num_layers=1).train(), whole_batch()
    before = gnn.norm.running_mean.clone()
    seen = []
    gnn.norm.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    run(gnn, data)
    assert seen[0].shape == (data.x.size(0), 8)
    wanted = 0.9 * before + 0.1 * seen[0].mean(dim=0)
    torch.testing.assert_close(gnn.norm.running_mean, wanted)


@pytest.mark.parametrize("name", NOT_EMPTY)
def test_ppgn_gives_every_parameter_a_gradient(name):
    gnn, data = make_gnn(), GRAPHS[name]
    gnn(data.x, data.edge_index, data.edge_attr).square().sum().backward()
    assert all(p.grad is not None for p in gnn.parameters())
    assert all(p.grad.isfinite().all() for p in gnn.parameters())


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_ppgn_on_no_node_gives_no_row(training):
    data = GRAPHS["empty"]
    gnn = make_gnn().train(training)
    assert gnn(data.x, data.edge_index, data.edge_attr).shape == (0, 4)


def test_ppgn_leaves_its_input_unchanged():
    data = whole_batch()
    before = data.clone()
    run(make_gnn(), data)
    for name, value in before.to_dict().items():
        assert not torch.is_tensor(value) or torch.equal(value, data[name])


@pytest.mark.parametrize("name", GRAPHS)
def test_ppgn_is_permutation_equivariant(name):
    gnn = make_gnn().eval()
    assert_permutation_equivariant(lambda d: run(gnn, d), GRAPHS[name])


def test_ppgn_is_batching_consistent():
    gnn = make_gnn().eval()
    assert_batching_consistent(lambda d: run(gnn, d), list(GRAPHS.values()))


def test_ppgn_takes_a_batch_in_any_order():
    gnn, data = make_gnn().eval(), whole_batch()
    order = torch.randperm(data.x.size(0), generator=torch.Generator().manual_seed(1))
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel())
    shuffled = Data(
        x=data.x[order],
        edge_index=rank[data.edge_index],
        edge_attr=data.edge_attr,
        batch=data.batch[order],
    )
    found, wanted = run(gnn, shuffled), run(gnn, data)[order]
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning")
def test_ppgn_runs_in_bfloat16_autocast():
    graphs = small_graphs(channels=4, edge_channels=4, dtype=torch.float)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = run(make_gnn().float(), Batch.from_data_list(list(graphs.values())))
    out.float().sum().backward()
    assert out.isfinite().all()


@pytest.mark.parametrize("shape", [(10,), (10, 3), (9, 4)])
def test_ppgn_answers_wrong_edge_attributes_in_a_sentence(shape):
    data = GRAPHS["star"]
    with pytest.raises(EdgeAttrError, match=r"edge_attr has shape .* \[10, 4\]"):
        make_gnn()(data.x, data.edge_index, torch.zeros(shape))


@pytest.mark.parametrize("sizes", [(0, 1), (4, 0), (4, 1.5)])
def test_ppgn_refuses_impossible_sizes(sizes):
    with pytest.raises(OptionError, match="give a whole number of at least 1"):
        PPGN(*sizes)


def test_ppgn_separates_exp_pairs_beyond_the_rounding_errors_of_float32():
    graphs = load_dataset("exp-like").store[torch.arange(8)]
    torch.manual_seed(0)
    gnn, table = PPGN(16, 4), torch.randn(2, 16)

    def sums(dtype):
        x = table[graphs.x.flatten().long()].to(dtype)
        states = gnn.to(dtype)(x, graphs.edge_index, batch=graphs.batch)
        return segment_reduce(states, graphs.batch, 8, "sum").double()

    rough, exact = sums(torch.float), sums(torch.double)
    difference = (exact[0::2] - exact[1::2]).abs().amax(dim=1)
    assert (difference > 3 * (rough - exact).abs().max()).all()


@pytest.mark.parametrize("num_layers", [2, 4, 6, 12])
def test_deep_ppgn_of_complete_graphs_is_finite(num_layers):
    torch.manual_seed(0)
    gnn = PPGN(64, num_layers)
    edge_index = torch.combinations(torch.arange(40)).t()
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    out = gnn(torch.randn(40, 64), edge_index)
    out.sum().backward()
    assert out.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in gnn.parameters())


def test_find_pairs_gives_values_computed_by_hand():
    """Node 0 is alone; nodes 1, 3 and nodes 2, 4 are in graphs of two nodes."""
    pairs = find_pairs(torch.tensor([7, 2, 4, 2, 4]))
    assert pairs.sizes == [(1, 1), (2, 2)]
    assert pairs.num_pairs == 9
    assert pairs.nodes.tolist() == [1, 2, 2]
    assert pairs.start.tolist() == [0, 1, 5]
    assert pairs.first.tolist() == [0, 1, 5, 3, 7]
    assert pairs.position.tolist() == [0, 0, 0, 1, 1]
    assert pairs.size.tolist() == [1, 2, 2, 2, 2]
    assert pairs.rank.tolist() == [0, 1, 3, 2, 4]
    assert pairs.diagonal.tolist() == [0, 1, 5, 4, 8]


def test_find_pairs_of_no_node_finds_none():
    pairs = find_pairs(torch.zeros(0, dtype=torch.long))
    assert pairs.sizes == []
    assert pairs.num_pairs == 0
    assert pairs.first.numel() == pairs.start.numel() == 0


@pytest.mark.parametrize("ordered", [True, False])
def test_find_pairs_gives_every_pair_of_a_graph_one_row(ordered):
    batch = torch.randint(20, (70,), generator=torch.Generator().manual_seed(0))
    batch = batch.sort().values if ordered else batch
    pairs = find_pairs(batch)
    rows = []
    for i in range(70):
        others = (batch == batch[i]).nonzero().flatten()
        assert pairs.position[others].tolist() == list(range(len(others)))
        assert pairs.size[i] == len(others)
        rows += (pairs.first[i] + pairs.position[others]).tolist()
    assert sorted(rows) == list(range(pairs.num_pairs))
    assert sum(count for _, count in pairs.sizes) == len(pairs.nodes)
    assert torch.equal(pairs.first.argsort().argsort(), pairs.rank)


def test_pair_states_are_those_of_nodes_and_edges():
    """Two nodes; edges 0 -> 1 twice, and a self loop of node 1."""
    x, e = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [20.0], [40.0]])
    pairs = find_pairs(torch.tensor([0, 0]))
    found = pair_states(x, torch.tensor([[0, 0, 1], [1, 1, 1]]), e, pairs)
    assert found.flatten().tolist() == [1, 0, 30, 42]


def test_multiply_pairs_gives_values_computed_by_hand():
    pairs = find_pairs(torch.tensor([1, 1, 0]))
    left, right = torch.tensor([[5.0], [1], [2], [3], [4]]), torch.arange(5.0)[:, None]
    assert multiply_pairs(left, right, pairs).flatten().tolist() == [0, 7, 10, 15, 22]


def padded_ppgn(gnn, x, edge_index, edge_attr, batch):
    """Compute a `PPGN` on graphs that are padded to one size, as [g, n, n, w]."""
    sizes = torch.bincount(batch)
    graphs, size = sizes.numel(), int(sizes.max())
    order = torch.argsort(batch, stable=True)
    position = torch.empty_like(batch)
    position[order] = torch.arange(batch.numel())
    position -= (sizes.cumsum(0) - sizes)[batch]
    source, target = edge_index
    dense = x.new_zeros(graphs, size, size, x.size(1))
    dense = dense.index_put((batch, position, position), x, accumulate=True)
    at = (batch[target], position[target], position[source])
    dense = dense.index_put(at, edge_attr, accumulate=True)
    real = torch.arange(size) < sizes[:, None]
    mask = (real[:, :, None] & real[:, None, :])[..., None]
    for block in gnn.blocks:
        left = (block.left(dense) * mask).permute(0, 3, 1, 2)
        right = (block.right(dense) * mask).permute(0, 3, 1, 2)
        product = (left @ right).permute(0, 2, 3, 1)
        dense = block.mix(torch.cat([dense, product], dim=3)) * mask
    diagonal = dense[batch, position, position]
    others = dense.sum(dim=2)[batch, position] - diagonal
    return gnn.readout(gnn.norm(torch.cat([diagonal, others], dim=1)))
