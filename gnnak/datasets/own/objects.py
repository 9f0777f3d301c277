"""Convert Python objects (data frames, PyG and networkx graphs) to `GraphRows`."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from gnnak.datasets.own.molecules import SMILES_NAMES
from gnnak.errors import GnnakError, GraphError, OptionError, kind_of
from gnnak.graphs import GraphBatch, GraphStore, from_networkx, from_pyg
from gnnak.graphs.readers.npz import MASKS, split_of_masks
from gnnak.graphs.readers.pyg import field_axes
from gnnak.graphs.readers.rows import BadRow, FeatureUse, GraphRows
from gnnak.graphs.store import is_one_way
from gnnak.typing import check_known, check_no_list


@dataclass(frozen=True)
class Reading:
    """Options for reading graphs."""

    smiles: str | None = None
    """The column with SMILES strings; if None, one with a name such as `smiles`."""
    node_attr: tuple[str, ...] = ()
    """Attributes of nodes to use as features; if empty, the attribute `x`."""
    edge_attr: tuple[str, ...] = ()
    """Attributes of edges to use as features; if empty, the one named `edge_attr`."""
    limit: int | None = None
    """Number of rows to read, from the first one on; if None, all rows."""
    featurizer: str = "ogb"
    """Name of the featurizer for SMILES strings."""
    trained: bool = False
    """Whether the names of attributes come from a trained model, not from the user."""


def is_frame(data: object) -> bool:
    """Return whether an object is a data frame of pandas or of a similar library."""
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
    """Return the names of the columns of `y`; () unless they are distinct texts."""
    names = (getattr(y, "name", None),) if is_series(y) else ()
    names = tuple(y.columns) if is_frame(y) else names
    texts = tuple(name for name in names if isinstance(name, str) and name)
    return texts if len(set(texts)) == len(names) else ()


def refuse_frame(frame: Any) -> None:
    names = list(map(str, frame.columns))
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
    """Convert graphs of any supported type, or a single graph, to a list."""
    if is_frame(data):
        refuse_frame(data)
    if is_series(data):
        return list(as_array(data))
    if hasattr(data, "to_data_list"):
        return list(data.to_data_list())
    # A PyG Dataset also has the attribute edge_index.
    is_graph = hasattr(data, "edge_index") or hasattr(data, "adj")
    if is_graph and not isinstance(data, Dataset):
        return [data]
    with suppress(TypeError):
        if not isinstance(data, dict | set | frozenset | bytes):  # A set has no order.
            return list(data)
    raise GraphError(
        f"the data are {kind_of(data)}; give a path, or a list of SMILES strings (such "
        "as a column of a table), PyG Data or networkx graphs."
    )


def are_smiles(items: Sequence[Any]) -> bool:
    """Return whether the first item that is not missing is a string (SMILES).

    >>> are_smiles([None, float("nan"), "CCO"]), are_smiles([])
    (True, False)
    """
    # Missing values of a column of texts are None or NaN, a float.
    known = (item for item in items if not isinstance(item, float | None))
    return isinstance(next(known, None), str)


PHRASES = {
    " of graph 0": "",
    "graph 0 is": "it is",
    "in store 0": "in the first graph",
    "in store 1": "in this one",
}
"""Maps phrases in error messages about one graph to phrases that users understand."""
Names = tuple[str, ...]
Convert = Callable[[Sequence[Any]], GraphStore]
"""Converts graphs of another library to a store; raises an error for a bad graph."""


def graphs_in_list(
    items: Sequence[Any], reading: Reading, source: str = "the list of graphs"
) -> GraphRows:
    """Convert PyG `Data` or networkx graphs; unusable graphs become bad rows."""
    good = {row: it for row, it in enumerate(items) if not isinstance(it, BadRow)}
    bad = [BadRow(i + 1, it.reason) for i, it in enumerate(items) if i not in good]
    first, unread = next(iter(good.values()), None), ""
    node_attr, edge_attr = reading.node_attr, reading.edge_attr
    check = partial(check_attributes, source=source, trained=reading.trained)
    if isinstance(first, nx.Graph):
        use = _networkx_features(list(good.values()), node_attr, edge_attr, check)
        # Without categories, strings are bad rows: training and prediction would number
        # them differently.
        named = partial(from_networkx, node_attr=use.nodes or None, categories={})
        convert: Convert = partial(named, edge_attr=use.edges or None)
    else:
        data = [graph for graph in good.values() if isinstance(graph, Data)]
        if node_attr or edge_attr:
            of_nodes, of_edges = _fields(data)
            check("node", node_attr, of_nodes, of_edges, is_empty=not data)
            check("edge", edge_attr, of_edges, of_nodes, is_empty=not data)
        level = target_level(list(good.values()))
        if unread := UNREAD.get(level, ""):
            good = {row: without_targets(graph) for row, graph in good.items()}
        convert = partial(from_pyg, node_attr=node_attr, edge_attr=edge_attr)
        convert = partial(convert, node_targets=level == "node")
    store, position, wrong = _convert(good, convert)
    bad_rows = tuple(sorted(bad + wrong))
    rows = GraphRows(store, position, len(items), bad_rows, source=source)
    if rows.is_one_graph:
        masks = node_masks(items[0])
        size = int(store.num_nodes)
        rows = replace(rows, split=split_of_masks(masks, size) if masks else None)
    if isinstance(first, nx.Graph):
        columns, per_node = _attributes(items, position.tolist())
        use = replace(use, unused_graphs=tuple(columns))
        return replace(rows, columns=columns, node_columns=per_node, features=use)
    use = _pyg_features(store, [items[row] for row in position], node_attr, edge_attr)
    if rows.split is not None:
        use = use.without(MASKS)
    unused = use.unused_nodes + use.unused_edges + use.unused_graphs
    if not unread and store.y is None and "edge_label" in unused:
        unread = UNREAD["edge_label"]
    return replace(rows, features=use, unread_y=unread, one_way=is_one_way(store))


def node_masks(graph: Any) -> dict[str, Tensor]:
    found = ((name, getattr(graph, name, None)) for name in MASKS)
    return {name: mask for name, mask in found if isinstance(mask, Tensor)}


LEVELS = (
    "gnnak.train learns targets of graphs or of nodes; for edges, write your own loop, "
    "as in docs/recipes.md#targets-of-edges."
)
UNREAD = {
    "edge": f"y has one row for every edge, but {LEVELS}",
    "edge_label": f"edge_label has targets of edges, but {LEVELS}",
    "node or edge": "every graph has as many nodes as edges, so that y may have "
    "targets of nodes or of edges; for nodes, give from_pyg(graphs, node_targets=True) "
    "of gnnak.graphs; for edges, write your own loop, as in "
    "docs/recipes.md#targets-of-edges.",
}
"""Maps results of `target_level`, and the name of a field with targets of edges, to the
reason why the targets of PyG graphs are not read."""


def target_level(graphs: Sequence[Any]) -> str:
    """Return what a row of `y` describes: "graph", "node", "edge" or "node or edge"."""
    counts, known = Counter[str](), 0
    for graph in graphs:
        y, edge_index = (getattr(graph, name, None) for name in ("y", "edge_index"))
        if y is None:
            continue
        if not isinstance(y, Tensor) or not y.dim():
            return "graph"
        rows, edges = y.size(0), 0
        if isinstance(edge_index, Tensor) and edge_index.dim():
            edges = edge_index.size(-1)
        fits = {
            "graph": rows == 1,
            "node": rows == getattr(graph, "num_nodes", None),
            "edge": rows == edges,
            "undirected edge": 2 * rows == edges,
        }
        if rows > 1 and len(graphs) == 1 and node_masks(graph):
            return "node"
        counts.update(level for level in fits if fits[level])
        known += 1
    levels = {level for level, count in counts.items() if count == known}
    # If a few graphs fit no level of the others, these are bad rows.
    if not levels and 2 * max(counts["graph"], known - counts["node"]) < known:
        return "node"
    if "graph" in levels or not levels:
        return "graph"
    if "node" not in levels:
        return "edge"
    return "node" if levels == {"node"} else "node or edge"


def without_targets(graph: Any) -> Any:
    """Return a shallow copy of a PyG graph without `y`; return other objects as is."""
    if hasattr(graph, "edge_index") and getattr(graph, "y", None) is not None:
        graph = copy(graph)
        graph.y = None
    return graph


def lacks_attribute(owner: str, name: str) -> GraphError:
    told = f"the model was trained with the {owner} attribute {name!r}"
    return GraphError(f"{told}; add it to the graphs.")


def check_attributes(
    owner: str,
    wanted: Sequence[str],
    known: Iterable[str],
    others: Collection[str],
    source: str,
    trained: bool = False,
    is_empty: bool = False,
) -> None:
    if trained and is_empty:  # Without nodes or edges, nothing is missing.
        return
    known = sorted(set(known) - {"edge_index", "num_nodes", "y"})
    for name in wanted:
        if trained and name not in known:
            raise lacks_attribute(owner, name)
        if name in others and name not in known:
            other = "edge" if owner == "node" else "node"
            flag = f"--{other}-attr ({other}_attr)"
            raise OptionError(f"{name} belongs to the {other}s; use {flag}.")
        if not known:
            told = f"the {owner}s of {source} have no attributes"
            raise OptionError(f"{told}; leave out --{owner}-attr ({owner}_attr).")
        check_no_list(f"{owner}_attr", name, known)
        check_known(f"{owner} attribute", name, known, of=f" in {source}")


def _fields(graphs: Sequence[Data]) -> tuple[set[str], set[str]]:
    """Return two sets: names of fields that may belong to nodes, and to edges."""
    names: set[str] = set()
    nodes, edges = set(), set()
    for graph in graphs:
        fields, size = graph.to_dict(), getattr(graph, "num_nodes", None)
        names |= fields.keys()
        tensors = {name: v for name, v in fields.items() if isinstance(v, Tensor)}
        rows = {name: len(value) for name, value in tensors.items() if value.dim()}
        links = tensors["edge_index"].size(-1) if "edge_index" in rows else 0
        if size != links:
            nodes |= {name for name, count in rows.items() if count == size}
            edges |= {name for name, count in rows.items() if count == links}
    return names - (edges - nodes), names - (nodes - edges)


def _networkx_features(
    graphs: list[Any], node_attr: Names, edge_attr: Names, check: Callable[..., None]
) -> FeatureUse:
    """Choose the features of networkx graphs, by default `x` and `edge_attr`."""
    graphs = [graph for graph in graphs if isinstance(graph, nx.Graph)]
    nodes = [data for graph in graphs for _, data in graph.nodes(data=True)]
    edges = [data for graph in graphs for *_, data in graph.edges(data=True)]
    of_nodes = Counter(str(name) for row in nodes for name in row)
    of_edges = Counter(str(name) for row in edges for name in row)
    check("node", node_attr, of_nodes, of_edges, is_empty=not nodes)
    check("edge", edge_attr, of_edges, of_nodes, is_empty=not edges)
    used, unused, all_texts = [], [], list[str]()
    for wanted, default, rows, counts in (
        (node_attr, "x", nodes, of_nodes),
        (edge_attr, "edge_attr", edges, of_edges),
    ):
        used.append(wanted or (default,) * (counts[default] == len(rows) > 0))
        texts = {str(n) for row in rows for n, v in row.items() if isinstance(v, str)}
        others = sorted(counts.keys() - set(used[-1]), key=lambda n: (n in texts, n))
        unused.append(tuple(others))
        all_texts += sorted(texts)
    return FeatureUse(used[0], used[1], unused[0], unused[1], texts=tuple(all_texts))


def _pyg_features(
    store: GraphStore, graphs: Sequence[Any], node_attr: Names, edge_attr: Names
) -> FeatureUse:
    """Return which fields are features (default `x`, `edge_attr`), which are unused."""
    nodes = node_attr or ("x",) * (store.x is not None)
    edges = edge_attr or ("edge_attr",) * (store.edge_attr is not None)
    fields = field_axes(graphs, store)
    unused = (
        tuple(n for n, of in fields.items() if of == axis and n not in nodes + edges)
        for axis in ("nodes", "edges", "graphs")
    )
    return FeatureUse(nodes, edges, *unused)


def _convert(
    good: dict[int, Any], convert: Convert
) -> tuple[GraphStore, Tensor, list[BadRow]]:
    """Convert graphs, keyed by row; return a store, each graph's row, and bad rows."""
    with suppress(Exception):  # other libraries' objects raise many types
        return convert(list(good.values())), torch.tensor(list(good)).long(), []
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
    if not isinstance(error, GnnakError):
        return f"it is malformed ({type(error).__name__})"
    text = " ".join(str(error).split()).removeprefix("graph 0: ").rstrip(".")
    for here, told in PHRASES.items():
        text = text.replace(here, told)
    return text


def _attributes(
    items: Sequence[Any], position: list[int]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return all graph attributes, and the node attributes that every node has."""
    per_row = [dict(getattr(item, "graph", {})) for item in items]
    names = dict.fromkeys(name for row in per_row for name in row)
    columns = {str(name): [row.get(name) for row in per_row] for name in names}
    nodes = [data for row in position for _, data in items[row].nodes(data=True)]
    shared = set(nodes[0]).intersection(*nodes) if nodes else set()
    return columns, {str(name): [data[name] for data in nodes] for name in shared}
