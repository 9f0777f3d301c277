"""Compare the test error of models trained with and without SubgraphDrop.

The model is GIN-AK or GIN-AK+. It is trained to count substructures with the paper's
settings, on all subgraphs or, with `--drop`, on samples of them. The paper trains for
250 epochs and halves the learning rate every 40 epochs; with another number of epochs,
this interval is scaled in proportion. The recorded test error is that of the epoch with
the lowest validation error; both errors are evaluated on all subgraphs.

    python -m benchmarks.drop_quality --target triangle [--drop random] [--device cuda]
"""

import argparse
import time
from pathlib import Path

import torch
from torch import nn

from benchmarks.data import real_file
from benchmarks.subgraph_drop import STRATEGIES
from gnnak import EgoNets, SubgraphDrop
from gnnak.datasets.counting import SUBSTRUCTURES, count_substructures
from gnnak.graphs import GraphStore, read_npz
from gnnak.models import ModelOptions, Network, build_model
from gnnak.nn import Categorical
from gnnak.training.records.results import append_record, environment

RESULTS = Path("results/drop_quality.jsonl")
BATCH_SIZE = 128


def error(net: Network, store: GraphStore, y: torch.Tensor) -> float:
    """Return the mean absolute error of a model, evaluated on all subgraphs.

    Args:
        net: The model.
        store: The graphs.
        y: The correct output for each graph, [g].
    """
    net.eval()
    total = 0.0
    with torch.no_grad():
        for indices in torch.arange(len(store)).split(500):
            out = net(store[indices]).flatten()
            total += float((out - y[indices]).abs().sum())
    return total / len(store)


def train(
    target: str, model: str, drop: str | None, seed: int, epochs: int, device: str
) -> dict:
    """Train one model and return the JSON record of the run.

    Args:
        target: The substructure to count.
        model: "gin-ak" or "gin-ak+".
        drop: Strategy of SubgraphDrop; None = train on all subgraphs.
        seed: Seed of weights and batches.
        epochs: Number of epochs.
        device: Device to train on.
    """
    path = real_file("counting.npz")
    if path is None:
        raise SystemExit("counting.npz is not in the folder GNNAK_DATA")
    file = read_npz(path)
    counts = count_substructures(file.store, target)
    y = (counts / counts.std()).float().to(device)
    parts = {
        name: file.indices(name).to(device) for name in ("train", "validation", "test")
    }
    store = file.store.to(device)
    torch.manual_seed(seed)
    options = ModelOptions(
        subgraphs=EgoNets(2), drop=SubgraphDrop(drop or "random", min_coverage=3)
    )
    name = f"{model}-s" if drop else model
    net = build_model(name, Categorical((1,)), None, 1, options).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(
        optimizer, max(epochs * 40 // 250, 1), 0.5
    )
    rows = {name: (store.subset(index), y[index]) for name, index in parts.items()}
    best, curve, begin = (float("inf"), float("inf")), [], time.perf_counter()
    for epoch in range(epochs):
        net.train()
        part, wanted = rows["train"]
        for indices in torch.randperm(len(part), device=device).split(BATCH_SIZE):
            loss = nn.functional.l1_loss(net(part[indices]).flatten(), wanted[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        found = error(net, *rows["validation"])
        curve.append(found)
        if found < best[0]:
            best = (found, error(net, *rows["test"]))
        if epoch % 25 == 24:
            print(f"{target} {name} epoch {epoch + 1}: {best}", flush=True)
    return {
        "target": target,
        "model": name,
        "drop": drop and repr(options.drop),
        "seed": seed,
        "epochs": epochs,
        "validation_mae": best[0],
        "test_mae": best[1],
        "curve": curve,
        "epoch_seconds": (time.perf_counter() - begin) / epochs,
    }


def main() -> None:
    """Train one model and append its JSON record to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="triangle", choices=SUBSTRUCTURES)
    parser.add_argument("--model", default="gin-ak+", choices=["gin-ak", "gin-ak+"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drop", choices=STRATEGIES)
    parser.add_argument("--epochs", type=int, default=250)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--record", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = train(
        options.target,
        options.model,
        options.drop,
        options.seed,
        options.epochs,
        options.device,
    )
    append_record(options.record, record | environment(options.device))
    print(f"{record['target']} {record['model']}: test MAE {record['test_mae']:.4f}")


if __name__ == "__main__":
    main()
