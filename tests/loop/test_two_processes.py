"""A user's loop in two processes: an uplifted model in DistributedDataParallel."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn
from torch_geometric.nn import GIN

from gnnak import EgoNets, GraphLoader, TrainingStep, uplift
from tests.loop.models import molecules

RATE = 0.1


def model() -> nn.Module:
    torch.manual_seed(0)
    return uplift(GIN(4, 8, 2, out_channels=1), num_hops=2).double()


def loss(output: Tensor, batch) -> Tensor:
    return (output.mean() - batch.y.mean()).square()


def call(net: nn.Module, batch) -> Tensor:
    return net(batch.x, batch.edge_index)


def train(rank: int, folder: Path) -> None:
    """Train in one of two processes; save the batches and the trained weights."""
    start = f"file://{folder / 'start'}"
    distributed.init_process_group("gloo", start, rank=rank, world_size=2)
    net = nn.parallel.DistributedDataParallel(model())
    loader = GraphLoader(molecules(8), 2, shuffle=True, subgraphs=EgoNets(2))
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    step = TrainingStep(net, loss, optimizer, call=call)
    seen = []
    for batch in loader:
        step(batch)
        seen.append((batch.x, batch.edge_index.clone(), batch.y))
    torch.save((seen, net.module.state_dict()), folder / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_average_the_gradients_of_their_parts(tmp_path):
    program = f"""
import sys; from pathlib import Path; from {__name__} import train
train(int(sys.argv[1]), Path(sys.argv[2]))
"""
    commands = [[sys.executable, "-c", program, str(i), str(tmp_path)] for i in (0, 1)]
    running = [subprocess.Popen(command) for command in commands]
    assert [process.wait(120) for process in running] == [0, 0]
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)]
    parts, weights = zip(*found, strict=True)
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
