import copy

import pytest
import torch
from torch_geometric.data import Batch, Data

from gnnak import EgoNets, RandomWalks
from gnnak.errors import GraphError, OptionError, SubgraphError, WidthError
from gnnak.models import Network
from gnnak.sampling import SubgraphDrop
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)
from tests.models.zoo import (
    FAMILY,
    UPLIFTED,
    continuous_network,
    molecule_batch,
    molecules,
    small_network,
    tensors_of,
)

GRAPHS = small_graphs(channels=4, edge_channels=3)
SINGLES = small_graphs(channels=4, edge_channels=3, dtype=torch.float)
SOME = ["gin", "gcn-ak", "gin-ak+", "gat-ak+", "pna*-ak+", "ppgn", "ppgn-ak+"]


@pytest.mark.parametrize("name", UPLIFTED + FAMILY)
def test_network_leaves_its_input_unchanged(name):
    """Fault of the published code: a forward pass that overwrites its input batch."""
    data = molecule_batch()
    before = tensors_of(data)
    small_network(name, plain_conv=True).train()(data).sum().backward()
    after = tensors_of(data)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


class AsItIs(torch.nn.Module):
    """An encoder that returns the features as states."""

    def forward(self, x, num_nodes):
        return x


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        ("sum", [[9.0, 12.0], [7.0, 8.0]]),
        ("mean", [[3.0, 4.0], [7.0, 8.0]]),
        (None, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]),
    ],
)
def test_network_readout_by_hand(reduce, wanted):
    net = Network(AsItIs(), [], torch.nn.Identity(), reduce=reduce)
    x = torch.arange(1.0, 9.0).reshape(4, 2)
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    out = net(x, no_edges, batch=torch.tensor([0, 0, 0, 1]))
    assert out.tolist() == wanted


@pytest.mark.parametrize("node_task", [False, True], ids=["graphs", "nodes"])
@pytest.mark.parametrize("name", SOME)
def test_network_is_permutation_equivariant_and_batching_consistent(name, node_task):
    net = continuous_network(name, node_task=node_task).eval()
    single = copy.deepcopy(net).float()
    for graph in GRAPHS:
        assert_permutation_equivariant(net, GRAPHS[graph])
        assert_permutation_equivariant(single, SINGLES[graph], tolerance=1e-4)
    assert_batching_consistent(net, list(GRAPHS.values()))
    assert_batching_consistent(single, list(SINGLES.values()), tolerance=1e-4)


@pytest.mark.parametrize("name", ["gin", "gin-ak+"])
@pytest.mark.parametrize("place", ["first", "inside", "last", "alone"])
def test_network_gives_empty_graphs_a_row(name, place):
    """The published code drops trailing empty graphs: scatter without a size."""
    empty, path = GRAPHS["empty"], GRAPHS["path"]
    graphs = {
        "first": [empty, path],
        "inside": [path, empty, path],
        "last": [path, path, empty],
        "alone": [empty],
    }[place]
    data = Batch.from_data_list(graphs)
    net = continuous_network(name)
    assert net.train()(data).shape == (len(graphs), 3)
    assert net.eval()(data).shape == (len(graphs), 3)
    tensors = (data.x, data.edge_index, data.edge_attr, data.batch)
    assert torch.equal(net(*tensors, num_graphs=len(graphs)), net(data))


@pytest.mark.parametrize("name", SOME)
def test_network_trains_on_a_single_node(name):
    net = continuous_network(name).train()
    out = net(GRAPHS["single node"])
    out.sum().backward()
    assert out.shape == (1, 3)
    assert out.isfinite().all()


@pytest.mark.parametrize("name", ["gin", "gin-ak+", "ppgn-ak+"])
def test_network_takes_data_batch_and_tensors_alike(name):
    net = small_network(name).eval()
    data = molecules()[2]
    wanted = net(data)
    assert torch.equal(net(Batch.from_data_list([data])), wanted)
    assert torch.equal(net(data.x, data.edge_index, data.edge_attr), wanted)
    one = torch.zeros(data.num_nodes, dtype=torch.long)
    assert torch.equal(net(data.x, data.edge_index, data.edge_attr, one), wanted)


def test_network_takes_an_explicit_number_of_graphs_beside_a_data():
    net = small_network("gin").eval()
    data = molecules()[2]
    data.batch = torch.zeros(data.num_nodes, dtype=torch.long)
    assert net(data).shape == (1, 3)
    assert net(data, num_graphs=4).shape == (4, 3)


@pytest.mark.parametrize("name", ["gin-ak", "gin-ak+"])
def test_network_with_given_subgraphs_equals_extraction(name):
    net, data = small_network(name).eval(), molecule_batch()
    given, others = (EgoNets(k)(data.edge_index, data.num_nodes) for k in (2, 1))
    assert torch.equal(net(data, subgraphs=given), net(data))
    assert not torch.allclose(net(data, subgraphs=others), net(data))


@pytest.mark.parametrize("name", ["gin-ak+", "gcn", "pna*-ak+", "ppgn-ak"])
def test_network_state_dict_round_trips(name, tmp_path):
    """Fault of the published code: loading that breaks with `weights_only`."""
    one, two = small_network(name, seed=0), small_network(name, seed=1)
    data = molecule_batch()
    one.train()(data)
    torch.save(one.state_dict(), tmp_path / "weights.pt")
    two.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert torch.equal(one.eval()(data), two.eval()(data))
    assert torch.equal(copy.deepcopy(one)(data), two(data))


def test_network_resamples_walks_in_training_only():
    net = small_network("gin-ak+", subgraphs=RandomWalks(length=3, repeats=1))
    data = molecule_batch()
    random_state = torch.get_rng_state()
    net.eval()
    assert torch.equal(net(data), net(data))
    assert torch.equal(torch.get_rng_state(), random_state)
    evaluated = net(data)
    drawn = []
    net.layers[0].register_forward_pre_hook(lambda _, args: drawn.append(args[4].node))
    net.train()
    for _ in range(4):
        net(data)
    assert any(not torch.equal(drawn[0], other) for other in drawn[1:])
    fresh = small_network("gin-ak+", subgraphs=RandomWalks(length=3, repeats=1)).eval()
    assert torch.equal(fresh(data), evaluated)


def test_network_of_walks_is_repeatable_from_a_seed_in_training():
    net = small_network("gin-ak+", subgraphs=RandomWalks(length=3, repeats=1)).train()
    data = molecule_batch()
    torch.manual_seed(3)
    one = net(data)
    torch.manual_seed(3)
    assert torch.equal(net(data), one)


def test_network_extracts_once_for_all_layers():
    net = small_network("gin-ak+", num_layers=3)
    seen = []
    for layer in net.layers:
        layer.register_forward_pre_hook(lambda _, args: seen.append(args[4]))
    net(molecule_batch())
    assert len(seen) == 3
    assert all(subgraphs is seen[0] for subgraphs in seen)


def test_network_equals_its_sentence():
    """Node encoder, outer layers, readout pool, head."""
    net, data = small_network("gcn", num_layers=2).eval(), molecule_batch()
    first, second = net.encoder.tables.weight.split([5, 3])
    states = first[data.x[:, 0]] + second[data.x[:, 1]]
    for layer in net.layers:
        out = layer.kernels[0].gnn(states, data.edge_index)
        states = states + torch.relu(out / (1 + 1e-5) ** 0.5)
    pooled = [states[data.batch == i].sum(dim=0) for i in range(data.num_graphs)]
    hidden, last = net.head[1]
    middle = torch.stack(pooled) @ hidden[0].weight.t()
    wanted = torch.relu(middle / (1 + 1e-5) ** 0.5) @ last.weight.t() + last.bias
    torch.testing.assert_close(net(data), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning")
@pytest.mark.parametrize("name", SOME)
def test_network_runs_in_bfloat16_autocast(name):
    net = continuous_network(name).float().train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(Batch.from_data_list(list(SINGLES.values())))
    out.float().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_network_compiled_gives_the_eager_result():
    net, data = small_network("gin-ak+").eval(), molecule_batch()
    tensors = (data.x, data.edge_index, data.edge_attr, data.batch)
    compiled = torch.compile(net, backend="eager")
    got = compiled(*tensors, num_graphs=data.num_graphs)
    torch.testing.assert_close(got, net(data))


PATH = molecules()[2]


@pytest.mark.parametrize(
    ("change", "error", "wanted"),
    [
        ({"x": None}, GraphError, "needs node features x and edge_index"),
        ({"edge_index": None}, GraphError, "needs node features x and edge_index"),
        ({"edge_index": PATH.edge_index + 1}, GraphError, "names node 3"),
        ({"edge_index": PATH.edge_index.int()}, GraphError, "dtype torch.int32"),
        ({"edge_index": PATH.edge_index.t()}, GraphError, r"shape \[4, 2\]"),
        ({"x": PATH.x[:, :1]}, WidthError, r"give whole numbers of shape \[3, 2\]"),
        ({"x": PATH.x.float()}, WidthError, "give whole numbers"),
        ({"x": PATH.x + 5}, WidthError, "outside of the"),
        ({"edge_attr": PATH.edge_attr[:3]}, WidthError, r"shape \[4, 1\]"),
        ({"edge_attr": None}, WidthError, "features are None"),
        ({"batch": torch.tensor([0, 0])}, GraphError, r"int64 tensor \[3\]"),
        ({"batch": torch.tensor([0.0, 0, 0])}, GraphError, r"int64 tensor \[3\]"),
        (
            {"batch": torch.tensor([0, 1, 2]), "num_graphs": 2},
            GraphError,
            "batch names graph 2, but there are 2 graphs",
        ),
        (
            {"batch": torch.tensor([0, 0, -1]), "num_graphs": 2},
            GraphError,
            "batch names graph -1",
        ),
        ({"subgraphs": EgoNets(1)(PATH.edge_index, 4)}, SubgraphError, "4 subgraphs"),
    ],
)
@pytest.mark.parametrize("name", ["gin", "gin-ak+"])
def test_network_answers_wrong_input_in_a_sentence(name, change, error, wanted):
    given = {name: PATH[name] for name in ("x", "edge_index", "edge_attr")} | change
    with pytest.raises(error, match=wanted):
        small_network(name)(**given)


def test_network_of_a_data_without_features_says_what_to_pass():
    with pytest.raises(GraphError, match=r"pass x = torch.zeros"):
        small_network("gin")(Data(edge_index=PATH.edge_index, num_nodes=3))


def test_network_refuses_an_unknown_readout():
    with pytest.raises(OptionError, match="reduce is 'best'"):
        Network(torch.nn.Identity(), [], torch.nn.Identity(), reduce="best")


NAMES = ("gin-ak+", "gcn-ak", "pna*-ak+", "ppgn-ak+", "gin", "gin-ak+-s")


@pytest.fixture
def batch():
    return Batch.from_data_list(molecules())


@pytest.mark.parametrize("name", NAMES)
def test_recomputing_gives_the_same_values_gradients_and_statistics(name, batch):
    drop = SubgraphDrop("random", 1)
    plain = small_network(name, dropout=0.3, drop=drop).train()
    saving = copy.deepcopy(plain)
    saving.save_memory(recompute=True)
    outs = []
    for network in (plain, saving):
        torch.manual_seed(3)
        out = network(batch, generator=torch.Generator().manual_seed(5))
        out.square().sum().backward()
        outs.append(out)
    assert torch.equal(*outs)
    for ours, theirs in zip(saving.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
    for name, value in plain.state_dict().items():
        assert torch.equal(saving.state_dict()[name], value), name


def test_save_memory_wants_at_least_one_copy():
    with pytest.raises(OptionError, match="max_copies is 0"):
        small_network("gin-ak+").save_memory(max_copies=0)
