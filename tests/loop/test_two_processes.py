"""A user's loop in two processes: an uplifted model in DistributedDataParallel."""

import copy
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GIN

from gnnak import EgoNets, GraphLoader, TrainingStep, uplift
from gnnak.loop import training_step
from tests.fast.recorders import make_recorder, maker_with
from tests.gpu import GPU
from tests.loop.models import Gine, mae, molecules
from tests.two_processes import results_of

RATE = 0.1


def model() -> nn.Module:
    torch.manual_seed(0)
    return uplift(GIN(4, 8, 2, out_channels=1), num_hops=2).double()


def loss(output: Tensor, batch) -> Tensor:
    return (output.mean() - batch.y.mean()).square()


def call(net: nn.Module, batch) -> Tensor:
    return net(batch.x, batch.edge_index)


def train(rank: int) -> tuple:
    """Train in one of two processes; return the batches and the trained weights."""
    net = nn.parallel.DistributedDataParallel(model())
    loader = GraphLoader(molecules(8), 2, shuffle=True, subgraphs=EgoNets(2))
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    step = TrainingStep(net, loss, optimizer, call=call)
    seen = []
    for batch in loader:
        step(batch)
        seen.append((batch.x, batch.edge_index.clone(), batch.y))
    return seen, net.module.state_dict()


@pytest.mark.slow
def test_two_processes_average_the_gradients_of_their_parts(tmp_path):
    parts, weights = zip(*results_of(train, tmp_path), strict=True)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    assert len(parts[0]) == len(parts[1]) == 2
    for both in zip(*parts, strict=True):
        optimizer.zero_grad()
        for x, edge_index, y in both:
            ((net(x, edge_index).mean() - y.mean()).square() / 2).backward()
        optimizer.step()
    targets = torch.cat([y for part in parts for *_, y in part])
    wanted = torch.cat([graph.y for graph in molecules(8)])
    assert torch.equal(targets.sort().values, wanted.sort().values)
    for name, wanted in net.state_dict().items():
        for found in weights:
            torch.testing.assert_close(found[name], wanted, rtol=0, atol=1e-12)


STEPS = 20
MODELS = {
    "uplifted": lambda: uplift(GIN(4, 8, 2, 1, norm="batch_norm"), num_hops=1),
    "norms of nodes and graphs": Gine,
}
CASES = [(name, dtype) for name in MODELS for dtype in (torch.double, torch.float)]
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.slow),
    pytest.param("cuda", marks=[*GPU, pytest.mark.slow]),
]


def graphs_of(dtype):
    graphs = molecules(30)
    for graph in graphs:
        graph.x, graph.edge_attr = graph.x.to(dtype), graph.edge_attr.to(dtype)
        graph.y = graph.y.to(dtype)
    return graphs


def mean_error(output: Tensor, batch) -> Tensor:
    if output.size(0) == batch.num_nodes:
        output = output.new_zeros(batch.num_graphs, 1).index_add(0, batch.batch, output)
    return mae(output.flatten(), batch)


def train_captured(rank, name, dtype, device, processes=2, synced=True, capture=True):
    """Train on the fast path; return losses, state and the number of replays."""
    torch.manual_seed(0)
    inside = net = MODELS[name]().to(device, dtype)
    if processes > 1:
        net = nn.parallel.DistributedDataParallel(net)
        if synced:
            # On a CPU, DistributedDataParallel refuses models with SyncBatchNorm.
            inside = nn.SyncBatchNorm.convert_sync_batchnorm(inside)
            net.module = inside
    # With the usual eps, Adam would amplify rounding errors. Captured steps have the
    # learning rate in float32, so it must be a number that float32 can represent.
    optimizer = torch.optim.Adam(net.parameters(), lr=2**-10, eps=1e-3)
    options = {"subgraphs": EgoNets(1)} if name == "uplifted" else {}
    size = 8 // processes
    loader = GraphLoader(
        graphs_of(dtype), size, True, device=device, pad=True, **options
    )
    make = maker_with(make_recorder(torch.device(device)))
    losses, replays = [], 0
    with mock.patch.object(training_step, "make_captured_model", make):
        step = TrainingStep(net, mean_error, optimizer, clip=1.0, capture=capture)
        while len(losses) < STEPS:
            for batch in loader:
                if rank and len(losses) % 5 == 4:
                    # A copy has no padded form: only the other process replays a step.
                    batch = copy.copy(batch)
                losses.append(float(step(batch)))
                captured = step._captured.values()
                replays += any(each.run.last is not None for each in captured)
    assert step.reason is None
    state = {key: value.cpu() for key, value in inside.state_dict().items()}
    return losses, state, replays


def train_all(rank, device):
    return [train_captured(rank, *case, device) for case in CASES]


@pytest.mark.parametrize("device", DEVICES)
def test_captured_steps_of_two_processes_train_as_one_process(tmp_path, device):
    found = results_of(train_all, tmp_path, device)
    for case, here, there in zip(CASES, *found, strict=True):
        losses, wanted, _ = train_captured(0, *case, device, processes=1)
        tolerance = 1e-10 if case[1] == torch.double else 1e-5
        close = {"rtol": tolerance, "atol": tolerance}
        for _, state, replays in (here, there):
            torch.testing.assert_close(state, wanted, **close)
            assert replays > STEPS // 4
        both = torch.tensor([here[0], there[0]], dtype=torch.double).mean(dim=0)
        torch.testing.assert_close(both.tolist(), losses, **close)


def train_unsynced(rank, device):
    name = "norms of nodes and graphs"
    case = (rank, name, torch.double, device)
    return [train_captured(*case, synced=False, capture=c) for c in (True, False)]


@pytest.mark.parametrize("device", DEVICES)
def test_norms_of_one_process_train_as_without_captured_steps(tmp_path, device):
    for captured, plain in results_of(train_unsynced, tmp_path, device):
        torch.testing.assert_close(captured[:2], plain[:2], rtol=1e-9, atol=1e-9)
        assert captured[2] > STEPS // 4
        assert not plain[2]
