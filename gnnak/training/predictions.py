"""Predict for many graphs with one trained network or several."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.cache import with_node_features
from gnnak.datasets.own.molecules import (
    molecule_chunks,
    molecule_files,
    need_featurizer,
)
from gnnak.datasets.own.read import Reading, as_rows
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import CheckpointError, OptionError, SizeError, counted
from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import ragged_ranges
from gnnak.graphs.readers.rows import BadRow, GraphRows, check_any
from gnnak.loading.large_graph import read_seeds
from gnnak.models.network import Network
from gnnak.training.config.run_config import RunConfig
from gnnak.training.data import seed_loader
from gnnak.typing import check_count


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for the rows of a file or list, in the order of the input.

    A row is a graph, or in node tasks a node. In shapes, r is the number of rows.
    """

    values: np.ndarray
    """[r, columns], float64: predicted targets in their own units, or probabilities of
    classes or labels. NaN in bad rows."""
    columns: tuple[str, ...]
    """Names of the columns: the targets, classes or labels."""
    deviation: np.ndarray | None = None
    """[r, columns]: standard deviation over several networks; None for one network."""
    labels: tuple[str | None, ...] | None = None
    """The most probable class of each row as a text, such as "1" for the class 1; None
    for bad rows. The field is None if the task is not classification."""
    bad: tuple[BadRow, ...] = ()
    """The rows that could not be read as graphs; row numbers start at 1."""
    graph: np.ndarray | None = None
    """[r]: in node tasks, the index of the graph of each row (node); otherwise None."""
    node: np.ndarray | None = None
    """[r]: in node tasks, the number of each node in its graph; otherwise None."""
    embeddings: np.ndarray | None = None
    """[r, c], float32: inputs of the head of the (first) network; None if embeddings
    were not requested."""

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return (
            f"Predictions(rows={len(self)}, columns={list(self.columns[:5])}, "
            f"bad={len(self.bad)})"
        )


class Part(NamedTuple):
    """Predictions for some consecutive rows of a file."""

    rows: GraphRows
    """The rows as they were read: their graphs, and the columns of the table."""
    predictions: Predictions


def column_names(info: DatasetInfo) -> tuple[str, ...]:
    if info.task == "classification":
        return info.class_names
    if len(info.targets) == info.num_outputs:
        return info.targets
    if info.num_outputs == 1:
        return ("y",)
    return tuple(f"y{i}" for i in range(info.num_outputs))


def joined(parts: Sequence[Predictions]) -> Predictions:
    if len(parts) == 1:
        return parts[0]
    fields: dict[str, Any] = {}
    for name in ("values", "deviation", "graph", "node", "embeddings"):
        found = [getattr(part, name) for part in parts]
        fields[name] = None if found[0] is None else np.concatenate(found)
    labels = [part.labels for part in parts]
    return replace(
        parts[0],
        **fields,
        labels=None if labels[0] is None else tuple(t for p in labels for t in p or ()),
        bad=tuple(row for part in parts for row in part.bad),
    )


BATCH_SIZE = 256
"""Default number of graphs per forward pass."""


class Predictor(Protocol):
    """Interface of the trained models that `predict` takes, such as `TrainedModel`."""

    network: Network
    info: DatasetInfo
    config: RunConfig
    reading: Reading

    def __call__(self, graphs: Any, *edges: Tensor | None) -> Tensor:
        """Return predicted targets in their own units, or logits."""


def predict(
    models: Sequence[Predictor],
    graphs: Any,
    batch_size: int | None = None,
    embeddings: bool = False,
    smiles: str | None = None,
    nodes: object = None,
) -> Predictions:
    """Predict for all rows of a file or list; average the predictions of the models."""
    parts = predict_parts(models, graphs, batch_size, embeddings, smiles, nodes)
    return joined([part.predictions for part in parts])


def predict_parts(
    models: Sequence[Predictor],
    graphs: Any,
    batch_size: int | None = None,
    embeddings: bool = False,
    smiles: str | None = None,
    nodes: object = None,
    skip: int = 0,
    map_parts: Callable[..., Iterable[Part]] = map,
) -> Iterator[Part]:
    """Predict for the rows of a file or list; files of molecules are read in parts.

    The predictions of several networks are averaged. `smiles` is the column with SMILES
    strings; if None, as in training. `nodes` is a mask or a list of nodes of one graph;
    if None, all nodes. Parts that end within the first `skip` rows are left out.
    `map_parts` does the work of `map`, perhaps on other machines.
    """
    _check_alike(models)
    if batch_size is not None:
        check_count("batch_size", batch_size, least=1)
    options = batch_size or BATCH_SIZE, embeddings, nodes
    parts = _parts(models[0], graphs, smiles, skip)
    yield from map_parts(partial(predict_part, models, *options), parts)


def predict_part(
    models: Sequence[Predictor],
    batch_size: int,
    embeddings: bool,
    nodes: object,
    read: Callable[[], GraphRows],
) -> Part:
    rows = read()
    chosen = None if nodes is None else _chosen_nodes(models[0], rows, nodes)
    outputs = [
        _outputs(model, rows.store, batch_size, embeddings, chosen) for model in models
    ]
    return Part(rows, _as_predictions(models[0], rows, outputs, chosen))


def _parts(
    model: Predictor, graphs: Any, smiles: str | None, skip: int
) -> Iterator[Callable[[], GraphRows]]:
    reading, is_path = model.reading, isinstance(graphs, str | os.PathLike)
    if is_path and molecule_files(graphs):
        featurizer = need_featurizer(model.info)
        column = smiles or reading.smiles
        yield from molecule_chunks(graphs, column, featurizer=featurizer, skip=skip)
        return
    rows = as_rows(graphs, reading)
    if is_path and not rows.num_rows:
        check_any(rows)
    if rows.molecules is not None:
        need_featurizer(model.info)
    rows = replace(rows, store=replace(rows.store, y=None, node_targets=False))
    yield lambda: rows


def _chosen_nodes(model: Predictor, rows: GraphRows, nodes: object) -> Tensor:
    """Return the indices of the nodes that the user chose in a single graph."""
    owner = "node" if model.info.node_task else "graph"
    if owner == "graph" or len(rows) != 1:
        raise OptionError(
            f"nodes are given, but {rows.source} has {counted(len(rows), 'graph')} and "
            f"the network predicts targets of {owner}s; leave them out."
        )
    return read_seeds(nodes, int(rows.store.node_ptr[-1]), "nodes")[0]


def _outputs(
    model: Predictor,
    store: GraphStore,
    batch_size: int,
    embeddings: bool,
    nodes: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    states: list[Tensor] = []
    hook = model.network.head.register_forward_pre_hook(
        lambda _, inputs: states.append(inputs[0].float().cpu())
    )
    try:
        raw = raw_outputs(model, store, batch_size, nodes, states).double()
    finally:
        hook.remove()
    if nodes is not None and not model.config.train.num_neighbors:
        raw, states = raw[nodes], [torch.cat(states)[nodes]]
    if model.info.task == "classification":
        raw = raw.softmax(dim=1)
    elif model.info.task == "multilabel":
        raw = raw.sigmoid()
    if not embeddings:
        return raw, None
    return raw, torch.cat(states) if states else torch.zeros(0, 1)


def raw_outputs(
    model: Predictor,
    store: GraphStore,
    batch_size: int,
    nodes: Tensor | None = None,
    states: list[Tensor] | None = None,
) -> Tensor:
    """Return the predictions or logits of a model for all graphs, on the CPU.

    The caller may register a hook that appends the inputs of the head to a list. Then
    pass this list as `states`, so that rows without an output are removed from it. If
    the model was trained on sampled neighbourhoods, outputs are only for `nodes`.
    """
    if model.config.train.num_neighbors and len(store) == 1:
        return _of_seeds(model, with_node_features(store), batch_size, nodes, states)
    store, found = with_node_features(store), [torch.zeros(0, model.info.num_outputs)]
    for first in range(0, len(store), batch_size):
        found += _split(model, store, first, min(first + batch_size, len(store)))
    return torch.cat(found)


@torch.no_grad()
def _of_seeds(
    model: Predictor,
    store: GraphStore,
    batch_size: int,
    nodes: Tensor | None,
    states: list[Tensor] | None,
) -> Tensor:
    """Return the outputs for nodes of one graph, each with its own neighbourhood."""
    found, graph = [], store.union().to(next(model.network.parameters()).device)
    rows = torch.arange(graph.num_nodes) if nodes is None else nodes
    options = replace(model.config.train, batch_size=batch_size)
    config = replace(model.config, train=options)
    for batch in seed_loader(graph, rows, model.network, config, shuffle=False):
        outputs = model(batch.x, batch.edge_index, batch.edge_attr)
        found.append(outputs[: batch.batch_size].cpu())
        if states:
            states[-1] = states[-1][: batch.batch_size]
    return torch.cat(found)


def _split(model: Predictor, store: GraphStore, first: int, stop: int) -> list[Tensor]:
    """Predict for graphs first..stop-1; halve a batch that does not fit in memory."""
    try:
        with torch.no_grad():
            graphs = store[torch.arange(first, stop)]
            return [model(graphs).cpu()]
    except (SizeError, torch.OutOfMemoryError):
        if stop - first < 2:
            raise
    middle = (first + stop) // 2
    return _split(model, store, first, middle) + _split(model, store, middle, stop)


def _as_predictions(
    model: Predictor,
    rows: GraphRows,
    outputs: Sequence[tuple[Tensor, Tensor | None]],
    nodes: Tensor | None = None,
) -> Predictions:
    """Average the outputs of the networks, and insert NaN for bad rows."""
    info = model.info
    values = torch.stack([output for output, _ in outputs])
    graph = node = None
    if info.node_task:
        place, length = torch.arange(values.size(1)), values.size(1)
        sizes = rows.store.num_nodes
        of, node = ragged_ranges(torch.zeros_like(sizes), sizes)
        graph = rows.position[of].numpy()
        if nodes is not None:
            graph, node = graph[: len(nodes)], nodes
    else:
        place, length = rows.position, rows.num_rows
    mean = _placed(values.mean(dim=0), place, length)
    deviation = None
    if len(outputs) > 1:
        deviation = _placed(values.std(dim=0, correction=1), place, length)
    states = outputs[0][1]
    labels = None
    if info.task == "classification":
        names = info.class_names
        known = dict(zip(place.tolist(), values.mean(dim=0).argmax(1), strict=True))
        labels = tuple(
            names[int(known[row])] if row in known else None for row in range(length)
        )
    return Predictions(
        mean,
        column_names(info),
        deviation,
        labels,
        rows.bad,
        graph,
        None if node is None else node.numpy(),
        None if states is None else _placed(states, place, length),
    )


def _placed(values: Tensor, place: Tensor, length: int) -> np.ndarray:
    """Return an array of `length` rows: `values` in the rows `place`, NaN elsewhere."""
    table = torch.full((length, values.size(1)), torch.nan, dtype=values.dtype)
    table[place] = values
    return table.numpy()


def _check_alike(models: Sequence[Predictor]) -> None:
    names = ("task", "num_outputs", "targets", "classes", "featurizer", "node_task")
    for model in models[1:]:
        for name in names:
            first, other = (getattr(m.info, name) for m in (models[0], model))
            if first != other:
                raise CheckpointError(
                    f"the networks of an ensemble differ: {name} is {first} in the "
                    f"first and {other} in another; give networks of one task."
                )
