"""Convert Python objects (data frames, PyG and networkx graphs) to `GraphRows`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Dataset

from gnnak.datasets.own.molecules import SMILES_NAMES
from gnnak.errors import GnnakError, GraphError, kind_of
from gnnak.graphs import GraphBatch, GraphStore, from_networkx, from_pyg
from gnnak.graphs.readers.rows import BadRow, GraphRows


def is_frame(data: object) -> bool:
    """Return whether an object is a data frame, of pandas or of a similar library."""
    # A frame also has its column names as attributes, so its type is checked.
    return hasattr(type(data), "columns") and hasattr(type(data), "shape")


def is_series(data: object) -> bool:
    """Return whether an object is a column of a data frame: a pandas `Series`."""
    return hasattr(type(data), "iloc") and not is_frame(data)


def as_array(values: Any) -> np.ndarray:
    """Return values as an array; missing values of pandas become None or NaN."""
    array = np.asarray(values)
    if array.dtype == object and hasattr(type(values), "iloc"):
        return np.asarray(values.to_numpy(dtype=object, na_value=None))
    return array


def target_names(y: Any) -> tuple[str, ...]:
    """Return the names of the columns of `y`, or () if these are not distinct texts."""
    names: tuple[object, ...] = ()
    if is_frame(y):
        names = tuple(y.columns)
    elif is_series(y):
        names = (getattr(y, "name", None),)
    texts = tuple(name for name in names if isinstance(name, str) and name)
    return texts if len(set(texts)) == len(names) else ()


def refuse_frame(frame: Any) -> None:
    """Raise the `GraphError` for a data frame that was given instead of graphs."""
    names = [str(name) for name in frame.columns]
    smiles = [name for name in names if name.lower() in SMILES_NAMES] or ["smiles"]
    others = [name for name in names if name not in smiles] or ["y"]
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    raise GraphError(
        f"the data are {kind_of(frame)} with the columns {shown or '(none)'}; give the "
        f"column of molecules as the graphs, such as frame[{smiles[0]!r}], and in "
        f"training the columns of targets as y, such as frame[{others[-1]!r}]."
    )


def store_of(batch: GraphBatch) -> GraphStore:
    """Convert a batch to a store on the CPU, without targets."""
    batch = batch.to("cpu")
    graph = batch.batch[batch.edge_index[0]]
    num_edges = torch.bincount(graph, minlength=batch.num_graphs)
    local = batch.edge_index - batch.ptr[graph]
    return GraphStore(batch.ptr.diff(), num_edges, local, batch.x, batch.edge_attr)


def as_items(data: Any) -> list[Any]:
    """Convert graphs of any supported type to a list; one graph gives a list of one."""
    if is_frame(data):
        refuse_frame(data)
    if is_series(data):
        return list(as_array(data))
    if hasattr(data, "to_data_list"):
        return list(data.to_data_list())
    if hasattr(data, "edge_index") or hasattr(data, "adj"):
        # A PyG Dataset also has the attribute edge_index.
        return list(data) if isinstance(data, Dataset) else [data]
    try:
        # A set has no order.
        if isinstance(data, dict | set | frozenset | bytes):
            raise TypeError
        return list(data)
    except TypeError as error:
        raise GraphError(
            f"the data are {kind_of(data)}; give a path, or a list of SMILES "
            "strings (such as a column of a table), PyG Data or networkx graphs."
        ) from error


def are_smiles(items: Sequence[Any]) -> bool:
    """Return whether the first item that is not missing is a string (SMILES).

    >>> are_smiles([None, float("nan"), "CCO"]), are_smiles([])
    (True, False)
    """
    # Missing values of a column of texts are None or NaN, a float.
    known = (item for item in items if not isinstance(item, float | None))
    return isinstance(next(known, None), str)


NAMES = {
    "graph 0 is": "it is",
    "in store 0": "in the first graph",
    "in store 1": "in this one",
}
"""Phrases in error messages about one graph, and what the user reads instead."""
Convert = Callable[[Sequence[Any]], GraphStore]
"""Converts graphs of another library to a store; raises an error for a bad graph."""


def graphs_in_list(
    items: Sequence[Any],
    node_attr: tuple[str, ...] = (),
    edge_attr: tuple[str, ...] = (),
    source: str = "the list of graphs",
) -> GraphRows:
    """Convert a list of PyG `Data` or of networkx graphs, row by row.

    Malformed graphs, and graphs whose features differ from those of the first good one,
    are bad rows. `node_attr` and `edge_attr` name the features of networkx graphs. If
    empty, the attributes `x` and `edge_attr` are used if all nodes or edges have them.
    """
    good = {row: it for row, it in enumerate(items) if not isinstance(it, BadRow)}
    bad = [
        BadRow(row + 1, it.reason) for row, it in enumerate(items) if row not in good
    ]
    first = next(iter(good.values()), None)
    if isinstance(first, nx.Graph):
        chosen = [graph for graph in good.values() if isinstance(graph, nx.Graph)]
        nodes = node_attr or _common(chosen, "x", lambda graph: graph.nodes(data=True))
        edges = edge_attr or _common(
            chosen, "edge_attr", lambda graph: graph.edges(data=True)
        )

        def convert(graphs: Sequence[Any]) -> GraphStore:
            # Strings are bad rows, since training and prediction would number them
            # differently.
            return from_networkx(graphs, nodes or None, edges or None, categories={})
    else:
        node_targets = _has_node_targets(list(good.values()))

        def convert(graphs: Sequence[Any]) -> GraphStore:
            return from_pyg(graphs, node_targets)

    store, position, wrong = _convert(good, convert)
    rows = GraphRows(
        store, position, len(items), tuple(sorted(bad + wrong)), source=source
    )
    if isinstance(first, nx.Graph):
        columns, per_node = _attributes(items, position.tolist())
        rows = replace(rows, columns=columns, node_columns=per_node)
    return rows


def _convert(
    good: dict[int, Any], convert: Convert
) -> tuple[GraphStore, Tensor, list[BadRow]]:
    """Convert all graphs at once; if that fails, one by one to find the bad ones."""
    try:
        return convert(list(good.values())), torch.tensor(list(good)).long(), []
    except Exception:  # other libraries' objects raise many types
        parts: list[GraphStore] = []
        position, bad = [], []
    for row, graph in good.items():
        try:
            one = convert([graph])
            GraphStore.concatenate([*parts[:1], one])
        except Exception as error:
            bad.append(BadRow(row + 1, _reason(error)))
        else:
            parts.append(one)
            position.append(row)
    if not parts:
        reason = bad[0].reason if bad else "there are none"
        raise GraphError(f"none of the graphs can be used: {reason}.")
    return GraphStore.concatenate(parts), torch.tensor(position), bad


def _reason(error: Exception) -> str:
    """Format an error about one graph as one line, without the number of the graph."""
    if not isinstance(error, GnnakError):
        return f"it is malformed ({type(error).__name__})"
    text = " ".join(str(error).split()).removeprefix("graph 0: ").rstrip(".")
    for here, told in NAMES.items():
        text = text.replace(here, told)
    return text


def _has_node_targets(graphs: Sequence[Any]) -> bool:
    several = False
    for graph in graphs:
        y = getattr(graph, "y", None)
        if not isinstance(y, Tensor) or not y.dim():
            return False
        if y.size(0) != getattr(graph, "num_nodes", None):
            return False
        several = several or y.size(0) != 1
    return several


def _common(
    graphs: Sequence[nx.Graph], name: str, items: Callable[[nx.Graph], Any]
) -> tuple[str, ...]:
    """Return `(name,)` if all items (nodes or edges) have the attribute, else ()."""
    found = [name in item[-1] for graph in graphs for item in items(graph)]
    return (name,) if found and all(found) else ()


def _attributes(
    items: Sequence[Any], position: list[int]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return all graph attributes, and the node attributes that every node has."""
    per_row = [dict(getattr(item, "graph", {})) for item in items]
    names = dict.fromkeys(name for row in per_row for name in row)
    columns = {str(name): [row.get(name) for row in per_row] for name in names}
    nodes = [data for row in position for _, data in items[row].nodes(data=True)]
    shared = set(nodes[0]) if nodes else set()
    for data in nodes:
        shared &= set(data)
    per_node = {str(name): [data[name] for data in nodes] for name in shared}
    return columns, per_node
