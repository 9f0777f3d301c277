"""Compare a training step on a CPU with the step of the paper's published code.

The published code computes everything for each node copy (a node as it occurs in one
rooted subgraph) and each edge copy, with PyG's convs and `scatter`. `published_forward`
computes a GNN-AK layer in the same way. Both sides have the same weights and get the
same rooted subgraphs; first, their outputs and gradients are compared in float64. Then
their steps (forward pass, backward pass, Adam) are timed alternately. Two models are
measured, with 6 layers of 128 channels, 3 hops and batches of 128 molecules of ZINC:
the paper's network GIN-AK+, and a PyG user's GINE, uplifted with `gnnak.PUBLISHED`. Run

    python -m benchmarks.published_step [--record]
"""

import argparse
import copy
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter

import gnnak
from benchmarks.data import molecules
from benchmarks.markdown import RESULTS, markdown
from benchmarks.own_loop import Gine
from gnnak.backend import PLAIN, use_backend
from gnnak.fast.backend import cpu_backend
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.models import ModelOptions, build_model
from gnnak.nn import GNNAK, describe
from gnnak.nn.base.stack import Stack
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.training.records.results import Record, append_record, environment

NUM_HOPS = 3
AGREEMENT = 1e-9
"""Largest relative difference of outputs and gradients in float64 that is accepted."""
Step = Callable[[], Tensor]


def published_forward(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor
) -> Tensor:
    """Compute a GNN-AK layer in the way of the published code.

    Args:
        layer: The layer, with the options `gnnak.PUBLISHED`.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Edge states, [e, c] or [e, c + h].
    """
    assert layer.hop_table is not None
    h, e = x[subgraphs.node], edge_attr[subgraphs.edge]
    rows = subgraphs.hop.remainder(len(layer.hop_table.weight))
    d = nn.functional.embedding(rows, layer.hop_table.weight)
    if layer.hop_linear is not None:
        h = h + layer.hop_linear(d)
    else:
        h = torch.cat([h, d], dim=1)
    emb = layer.project(_base_gnn(layer.gnn, h, subgraphs.edge_index, e))
    gates = {name: torch.sigmoid(g.linear(d)) for name, g in layer.gates.items()}
    is_centroid = subgraphs.node == subgraphs.root[subgraphs.subgraph]
    centroid = emb[is_centroid] * gates["centroid"][is_centroid]
    of_subgraph = layer.transforms["subgraph"](emb) * gates["subgraph"]
    of_context = layer.transforms["context"](emb) * gates["context"]
    pooled = scatter(of_subgraph, subgraphs.subgraph, 0, x.size(0), "sum")
    context = scatter(of_context, subgraphs.node, 0, x.size(0), "sum")
    return layer.fuse([centroid, pooled, context])


def _base_gnn(gnn: nn.Module, h: Tensor, edge_index: Tensor, e: Tensor) -> Tensor:
    """Run a PyG conv, or a stack of convs with norm, ReLU and residual sum."""
    if not isinstance(gnn, Stack):
        return gnn(h, edge_index, e)
    for conv, norm in zip(gnn.convs, gnn.norms, strict=True):
        h = h + norm(conv(h, edge_index, e)).relu()
    return h


def as_published(model: nn.Module) -> nn.Module:
    """Return a copy of a model whose GNN-AK layers run `published_forward`."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, GNNAK):
            module.forward = partial(published_forward, module)  # type: ignore[method-assign]
    return model


def models(store: GraphStore, channels: int, num_layers: int) -> dict[str, nn.Module]:
    """Build the two models that are measured, by name."""
    torch.manual_seed(0)
    node, edge = describe(store.x), describe(store.edge_attr)
    assert node is not None
    options = ModelOptions(channels=channels, num_layers=num_layers)
    user = Gine(channels, num_layers)
    return {
        "GIN-AK+, the paper's network": build_model("gin-ak+", node, edge, 1, options),
        "a user's GINE, uplifted": gnnak.uplift(
            user, NUM_HOPS, options=gnnak.PUBLISHED
        ),
    }


def loss_of(model: nn.Module, batch: GraphBatch, subgraphs: RootedSubgraphs) -> Tensor:
    """Return the mean absolute error of a model on a batch."""
    tensors = (batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    # A new record, as for each batch of a loader: nothing is cached from other steps.
    output = model(*tensors, subgraphs=replace(subgraphs))
    assert batch.y is not None
    return (output.flatten() - batch.y.flatten().to(output.dtype)).abs().mean()


def check_agreement(ours: nn.Module, published: nn.Module, store: GraphStore) -> float:
    """Return the largest relative difference of outputs and gradients in float64."""
    batch = store[torch.arange(4)]
    subgraphs = gnnak.EgoNets(NUM_HOPS)(batch.edge_index, batch.num_nodes)
    found = []
    for model, backend in ((ours, cpu_backend(0)), (published, PLAIN)):
        model = copy.deepcopy(model).double()
        if backend is PLAIN:
            model = as_published(model)
        with use_backend(backend):
            value = loss_of(model, batch, subgraphs)
            value.backward()
        grads = [w.grad for w in model.parameters() if w.grad is not None]
        found.append([value.detach(), *grads])
    largest = max(
        float((one - other).abs().max() / other.abs().max().clamp(min=1))
        for one, other in zip(*found, strict=True)
    )
    assert largest < AGREEMENT, f"the two models differ by {largest}"
    return largest


def training_step(
    model: nn.Module, batch: GraphBatch, subgraphs: RootedSubgraphs, published: bool
) -> Step:
    """Return a function that runs one training step."""
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> Tensor:
        with use_backend(PLAIN if published else None):
            optimizer.zero_grad()
            value = loss_of(model, batch, subgraphs)
            value.backward()
            optimizer.step()
        return value.detach()

    return step


def fastest(steps: list[Step], repeats: int) -> tuple[list[float], list[float]]:
    """Run functions alternately; return the least wall and processor time of each."""
    walls, processors = [[] for _ in steps], [[] for _ in steps]
    for number in range(repeats + 1):
        for i, step in enumerate(steps):
            wall, processor = time.perf_counter(), time.process_time()
            step()
            if number:  # the first step warms up
                walls[i].append(time.perf_counter() - wall)
                processors[i].append(time.process_time() - processor)
    return [min(times) for times in walls], [min(times) for times in processors]


def measure(name: str, ours: nn.Module, store: GraphStore, repeats: int) -> Record:
    """Compare one model with its published counterpart, and return the record."""
    published = as_published(ours)
    difference = check_agreement(ours, published, store)
    batch = store[torch.arange(len(store))]
    subgraphs = gnnak.EgoNets(NUM_HOPS)(batch.edge_index, batch.num_nodes)
    steps = [
        training_step(model.train(), batch, subgraphs, model is published)
        for model in (published, ours)
    ]
    walls, processors = fastest(steps, repeats)
    return {
        "kind": "published-step",
        "model": name,
        "graphs": len(store),
        "difference": difference,
        "published": walls[0],
        "seconds": walls[1],
        "ratio": walls[0] / walls[1],
        "processor_ratio": processors[0] / processors[1],
        "device": "cpu",
    }


def main() -> None:
    """Parse the command line, measure both models, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=128, help="graphs in the batch")
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=8, help="timed steps of each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    store = molecules(options.graphs)
    rows = []
    for name, model in models(store, options.channels, options.layers).items():
        record = measure(name, model, store, options.repeats)
        cells = [f"{record[key]:.2f} s" for key in ("published", "seconds")]
        ratios = [f"{record[key]:.2f}" for key in ("ratio", "processor_ratio")]
        rows.append([name, *cells, *ratios])
        print(*rows[-1], sep="  ", flush=True)
        if options.record:
            sizes = {"channels": options.channels, "layers": options.layers}
            about = sizes | {"environment": environment("cpu")}
            append_record(RESULTS / "own_loop.jsonl", record | about)
    head = ["model", "published", "gnnak", "times faster", "by processor time"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
