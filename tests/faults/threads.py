"""Call one uplifted model from several threads, with buffers that change in place."""

import random
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GIN

import gnnak
from tests.faults import Tally

THREADS = 4
GRAPHS = 12
"""Number of different graphs; all have the same number of nodes and edges."""


def calls(tries: int) -> Tally:
    """Compare each call with the value of the same graph, computed beforehand."""
    torch.manual_seed(0)
    model = gnnak.uplift(GIN(4, 8, 2), num_hops=2).double().eval()
    x = torch.randn(10, 4, dtype=torch.double)
    graphs = [_graph(seed) for seed in range(GRAPHS)]
    with torch.inference_mode():
        expected = [model(x, edges.clone()) for edges in graphs]
    tally = Tally()
    with ThreadPoolExecutor(THREADS) as threads:
        share = [tries // THREADS] * THREADS
        jobs = [
            threads.submit(_call_many, model, x, graphs, expected, count, seed)
            for seed, count in enumerate(share)
        ]
        for job in jobs:
            for error in job.result():
                tally.add("wrong" if error else "survived", error)
    return tally


def _call_many(
    model: torch.nn.Module,
    x: Tensor,
    graphs: list[Tensor],
    expected: list[Tensor],
    count: int,
    seed: int,
) -> list[str]:
    """Call the model; return an error text for each call, empty if it is right."""
    chance, errors = random.Random(seed), []
    buffer = graphs[0].clone()
    for _ in range(count):
        number, way = chance.randrange(GRAPHS), chance.randrange(5)
        # A tensor made in inference mode can be changed only there.
        with torch.inference_mode(buffer.is_inference() or way == 0):
            try:
                buffer = _changed(buffer, graphs[number], way)
                same = torch.equal(model(x, buffer), expected[number])
                errors.append("" if same else f"graph {number}, way {way}")
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
    return errors


def _changed(buffer: Tensor, edges: Tensor, way: int) -> Tensor:
    """Write edges into the buffer of the call before, or make a new buffer.

    In way 4, subgraphs are attached to the new buffer.
    """
    if way == 0:
        return edges.clone()
    if way == 4:
        graph = Data(edge_index=edges, num_nodes=10)
        (batch,) = gnnak.GraphLoader([graph], subgraphs=gnnak.EgoNets(2))
        return batch.edge_index
    if way == 1:
        return buffer.copy_(edges)
    if way == 2:
        buffer.data.copy_(edges)
    else:
        buffer.numpy()[:] = edges.numpy()
    return buffer


def _graph(seed: int) -> Tensor:
    """Return a random graph with 10 nodes and 30 edges."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(10, (2, 30), generator=generator)
