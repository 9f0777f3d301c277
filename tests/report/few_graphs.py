"""Replace every data set by a few small graphs with the same features and task."""

from dataclasses import replace
from functools import cache

import networkx as nx
import torch
from torch import Tensor

from gnnak.datasets import DATASETS
from gnnak.datasets.record import Dataset
from gnnak.graphs import from_networkx
from gnnak.nn.features import Categorical, Continuous, Features

ATOMS, BONDS = (119, 5, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)
FEATURES: dict[str, tuple[Features, Features | None]] = {
    "zinc": (Categorical((28,)), Categorical((4,))),
    "cifar10": (Continuous(5), None),
    "pattern": (Categorical((2, 2, 2)), None),
    "molhiv": (Categorical(ATOMS), Categorical(BONDS)),
    "molpcba": (Categorical(ATOMS), Categorical(BONDS)),
    "exp": (Categorical((2,)), None),
    "properties": (Continuous(2), None),
    "mutag": (Continuous(7), None),
}
"""Features of the real data sets; others have one constant node feature."""
COUNT = 8


@cache
def few_graphs(name: str) -> Dataset:
    """Return eight graphs of five to eight nodes that can replace the data set."""
    info = DATASETS[name].info
    nodes, edges = FEATURES.get(name, (Categorical((1,)), None))
    info = replace(info, node_features=nodes, edge_features=edges, source="made up")
    graphs = [nx.gnp_random_graph(5 + seed % 4, 0.5, seed) for seed in range(COUNT)]
    plain = from_networkx(graphs)
    rows = plain.num_nodes.sum() if info.node_task else torch.tensor(COUNT)
    store = replace(
        plain,
        x=_drawn(nodes, int(plain.num_nodes.sum())),
        edge_attr=None if edges is None else _drawn(edges, plain.edge_index.size(1)),
        y=_targets(info.task, info.num_outputs, int(rows)),
        node_targets=info.node_task,
    )
    split = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    folds = (torch.arange(COUNT) // 2 == torch.arange(4)[:, None]).long()
    ten = folds[torch.arange(10) % 4]
    return Dataset(info, store, split, ten).check()


def _drawn(features: Features, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if isinstance(features, Continuous):
        return torch.rand(rows, features.channels, generator=generator)
    drawn = [torch.randint(s, (rows,), generator=generator) for s in features.sizes]
    return torch.stack(drawn, dim=1)


def _targets(task: str, outputs: int, rows: int) -> Tensor:
    if task == "classification":
        return torch.arange(rows) % outputs
    if task == "regression":
        return torch.arange(rows) / rows
    answers = (torch.arange(rows)[:, None] + torch.arange(outputs)).float() % 2
    answers[0, 0] = torch.nan
    return answers
