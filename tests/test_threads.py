"""One model in several threads gives what it gives batch by batch."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch_geometric.nn import GIN

from gnnak import EgoNets, RandomWalks, SubgraphDrop, uplift
from gnnak.loading.padder import Shapes
from gnnak.loading.windows import make_window, split, split_padded
from gnnak.subgraphs.cached import cache_subgraphs
from tests.loading.test_padding import molecule_store
from tests.models.zoo import small_network

THREADS, BATCHES = 4, 30


def batches(count: int) -> list:
    """Batches of a few corner cases and molecules, all different."""
    store = molecule_store(4)
    draw = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(store), generator=draw)[:5] for _ in range(count)]
    return [store[order] for order in orders]


def in_threads(call, given: list) -> list:
    """The result for every input, computed by several threads at once."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, given))


def assert_same_in_threads(call) -> None:
    given = batches(THREADS * BATCHES)
    with torch.no_grad():
        wanted = [call(batch) for batch in given]
    for got, alone in zip(in_threads(call, given), wanted, strict=True):
        assert torch.equal(got, alone)


@pytest.mark.heavy
def test_an_uplifted_model_in_four_threads_gives_what_it_gives_alone():
    torch.manual_seed(0)
    net = uplift(GIN(8, 8, num_layers=2), num_hops=2).eval()
    table = torch.randn(8, 8)

    def call(batch):
        with torch.no_grad():
            return net(table[batch.x[:, 0]], batch.edge_index)

    assert_same_in_threads(call)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "options",
    [
        {"num_hops": 2, "drop": SubgraphDrop("random", 1)},
        {"num_hops": RandomWalks(length=3, repeats=2)},
    ],
    ids=["drop", "walks"],
)
def test_layers_share_a_sample_of_their_own_graph_in_every_thread(options):
    net = uplift(GIN(8, 8, num_layers=3), **options).train()
    table = torch.randn(8, 8)
    seen = threading.local()
    for conv in net.convs:
        conv.layer.register_forward_pre_hook(
            lambda _, arguments: seen.subgraphs.append(arguments[1])
        )

    def call(batch):
        seen.subgraphs = []
        net(table[batch.x[:, 0]], batch.edge_index).sum().backward()
        first, *others = seen.subgraphs
        first.check(batch.edge_index, batch.num_nodes)
        return len(others) == 2 and all(other is first for other in others)

    assert all(in_threads(call, batches(THREADS * 20)))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["gin-ak+", "gin-ak+-s", "gcn-ak"])
def test_a_network_in_four_threads_gives_what_it_gives_alone(name):
    network = small_network(name).eval()

    def call(batch):
        with torch.no_grad():
            return network(batch)

    assert_same_in_threads(call)


@pytest.mark.heavy
def test_padded_and_plain_batches_train_at_the_same_time():
    store, count = molecule_store(8), 8
    subgraphs = cache_subgraphs(store, EgoNets(2))[:]
    sizes = [len(store) // count] * count
    window = make_window(store[:], subgraphs, sizes)
    items = split_padded(window, Shapes().of(window, count, count)) + split(
        window, groups=True
    )

    first = small_network("gin-ak+").train()

    def gradient(item):
        network = copy.deepcopy(first)
        out = network(item.batch, subgraphs=item.subgraphs)
        real = len(out) if item.batch.real is None else int(item.batch.real.graphs)
        out[:real].square().sum().backward()
        return torch.cat([p.grad.flatten() for p in network.parameters()])

    wanted = [gradient(item) for item in items]
    for got, alone in zip(in_threads(gradient, items), wanted, strict=True):
        torch.testing.assert_close(got, alone, rtol=1e-12, atol=1e-12)
    for padded, plain in zip(wanted[:count], wanted[count:], strict=True):
        torch.testing.assert_close(padded, plain, rtol=1e-9, atol=1e-9)
