"""Data sets and configs that train in seconds, and a program that runs them."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch

from gnnak.datasets.pairs import regular_triangles
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.graphs import from_networkx
from gnnak.nn.features import Categorical
from gnnak.training import callbacks as callbacks_module
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.processes.machine import Machine
from gnnak.training.run import run

SMALL = {
    "data.name": "triangles",
    "model.num_layers": 2,
    "model.channels": 8,
    "model.hop_channels": 2,
    "model.subgraphs.num_hops": 1,
    "train.epochs": 3,
    "train.batch_size": 8,
}


def small_config(**options: Any) -> RunConfig:
    """Return a small config; names of `options` have __ instead of dots."""
    named = {key.replace("__", "."): value for key, value in options.items()}
    return change(RunConfig(), SMALL | named)


@cache
def triangles(num_pairs: int = 16) -> Dataset:
    """Classify 4-regular graphs: with or without a triangle."""
    store = regular_triangles(num_pairs)
    info = DatasetInfo(
        name="triangles",
        title="Triangles",
        task="classification",
        metric="accuracy",
        num_outputs=2,
        node_features=Categorical((1,)),
        edge_features=None,
        source="generated (seed 0)",
        protocols=("split", "held-out", "published"),
    )
    pair = torch.arange(2 * num_pairs) // 2
    split = torch.tensor([0, 1, 0, 2])[pair % 4]
    folds = (pair % 4 == torch.arange(4)[:, None]).long()
    return Dataset(info, store, split, folds)


@cache
def edge_counts(num_graphs: int = 24) -> Dataset:
    """Predict the number of edges of random graphs, divided by 100."""
    graphs = [nx.gnp_random_graph(8 + n % 5, 0.4, n) for n in range(num_graphs)]
    plain = from_networkx(graphs)
    nodes = int(plain.num_nodes.sum())
    x = torch.arange(nodes)[:, None] % 3
    store = replace(plain, x=x, y=plain.num_edges / 100)
    info = DatasetInfo(
        name="edges",
        title="Edges",
        task="regression",
        metric="mae",
        num_outputs=1,
        node_features=Categorical((3,)),
        edge_features=None,
        source="generated",
    )
    return Dataset(info, store, torch.tensor([0, 1, 0, 2]).repeat(num_graphs // 4))


@cache
def well_joined(num_graphs: int = 24) -> Dataset:
    """Classify the nodes of random graphs: at least four neighbours or fewer."""
    counted = edge_counts(num_graphs)
    batch = counted.store[torch.arange(num_graphs)]
    degree = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
    info = replace(
        counted.info,
        name="joined",
        title="Joined",
        task="classification",
        metric="accuracy",
        num_outputs=2,
        node_task=True,
    )
    store = replace(counted.store, y=(degree >= 4).long(), node_targets=True)
    return Dataset(info, store, counted.split)


@contextmanager
def stopped_after(epochs: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop runs inside of the `with` block after some epochs."""
    end = callbacks_module.RunHistory._stop_early

    def stop(self, trainer):
        end(self, trainer)
        trainer.should_stop |= self.epochs == epochs

    with monkeypatch.context() as patched:
        patched.setattr(callbacks_module.RunHistory, "_stop_early", stop)
        yield


DATA = {"triangles": triangles, "edges": edge_counts}


def main() -> None:
    """Run a config; arguments: folder, devices, how, options in JSON.

    `how` is "new" or "resume", or "captured" for a new run whose steps are taken as
    captured steps are, but called.
    """
    folder, devices, how, options = sys.argv[1:]
    if how == "captured":
        Machine.captures = lambda *_: True
    torch.set_num_threads(1)
    callbacks_module.SAVE_SECONDS = 0.0
    config = change(small_config(), json.loads(options))
    machine = Machine("cpu", int(devices))
    data = DATA[config.data.name]()
    record = run(config, data, Path(folder), machine, how == "resume")
    path = Path(folder) / "record.json"
    path.write_text(json.dumps(record))


if __name__ == "__main__":
    main()
