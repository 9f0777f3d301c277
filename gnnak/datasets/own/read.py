"""Read graphs from a path, or from lists of graphs of other libraries."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnnak.datasets.own.molecules import (
    MOLECULE_SUFFIXES,
    molecule_files,
    molecule_table,
    molecules_in_list,
)
from gnnak.datasets.own.objects import (
    Reading,
    are_smiles,
    as_items,
    graphs_in_list,
    store_of,
)
from gnnak.errors import FileFormatError, GnnakError
from gnnak.graphs import GraphBatch, GraphFile, GraphStore, read_npz
from gnnak.graphs.readers.files import format_suffix, read_bytes, visible_files
from gnnak.graphs.readers.graph6 import parse_graph6
from gnnak.graphs.readers.networkx import read_node_link
from gnnak.graphs.readers.npz import holds_one_graph
from gnnak.graphs.readers.pyg import read_pyg
from gnnak.graphs.readers.rows import BadRow, FeatureUse, GraphRows
from gnnak.graphs.readers.table import TABLE_SUFFIXES, read_edge_lists


def as_rows(data: Any, reading: Reading | None = None) -> GraphRows:
    """Read graphs from a path, SMILES strings, PyG or networkx graphs, or a store."""
    reading = reading or Reading()
    if isinstance(data, os.PathLike) or (isinstance(data, str) and is_path(data)):
        return _limited(read_path(Path(data), reading), reading.limit)
    if isinstance(data, str):
        data = [data]
    if isinstance(data, GraphBatch):
        data = store_of(data)
    if isinstance(data, GraphStore):
        data = GraphFile(data.check())
    if isinstance(data, GraphFile):
        rows = _from_file(data, "the list of graphs")
    elif are_smiles(items := as_items(data)):
        rows = molecules_in_list(items, featurizer=reading.featurizer)
    else:
        rows = graphs_in_list(items, reading)
    return _limited(rows, reading.limit)


def read_path(path: Path, reading: Reading) -> GraphRows:
    if not path.exists():
        raise FileFormatError(f"there is no file or folder {path}; check the path.")
    if molecule_files(path):
        return molecule_table(path, reading.smiles, reading.limit, reading.featurizer)
    if path.is_dir():
        return _read_folder(path, reading)
    suffix = format_suffix(path)
    if suffix not in READERS:
        kind, advice = OTHERS.get(suffix, (f"of the unknown kind {suffix!r}", "give"))
        told = f"{path} is {kind}; {advice} a folder or a file that ends in one of"
        known = ", ".join((*MOLECULE_SUFFIXES, *READERS))
        raise FileFormatError(f"{told}: {known}; see docs/formats.md.")
    return replace(READERS[suffix](path, reading), source=str(path))


def _read_folder(path: Path, reading: Reading) -> GraphRows:
    every = visible_files(path)
    files = [file for file in every if format_suffix(file) not in TABLE_SUFFIXES]
    if not files:
        told = f"the folder {path} has no graph files"
        if every:
            wanted = "give the path of one table"
            told = f"the folder {path} has tables and no graph files; {wanted}"
        raise FileFormatError(f"{told}; see docs/formats.md#folders.")
    items: list[Any] = []
    for file in files:
        suffix, known = format_suffix(file), ", ".join(LISTS)
        if suffix not in LISTS:
            told = f"{file} is not a graph file; files of a folder end in one of"
            raise FileFormatError(f"{told}: {known}; see docs/formats.md#folders.")
        items.extend(LISTS[suffix](file))
    return graphs_in_list(items, reading, str(path))


def _read_listed(path: Path, reading: Reading) -> GraphRows:
    return graphs_in_list(LISTS[format_suffix(path)](path), reading, str(path))


def _read_edge_lists(path: Path, reading: Reading) -> GraphRows:
    graphs = read_edge_lists(path)
    rows = graphs_in_list([*graphs.values()], reading, str(path))
    return replace(rows, names=tuple(graphs))


def _read_graph6(path: Path, _: Reading) -> GraphRows:
    content = read_bytes(path)
    try:
        return _from_file(GraphFile(parse_graph6(content, str(path))), str(path))
    except FileFormatError:
        lines = [line for line in content.split(b"\n") if line.strip()]
    stores, position, bad = [parse_graph6("")], [], []
    for row, line in enumerate(lines):
        try:
            stores.append(parse_graph6(line, "it"))
            position.append(row)
        except FileFormatError as error:
            bad.append(BadRow(row + 1, str(error).rstrip(".").split(": ", 1)[-1]))
    store = GraphStore.concatenate(stores)
    return GraphRows(store, torch.tensor(position).long(), len(lines), tuple(bad))


def _from_file(file: GraphFile, source: str) -> GraphRows:
    store, size = file.store, len(file.store)
    # A file without features is read with zeros as `x`.
    has_x = store.x is not None and bool(store.x.any())
    use = FeatureUse(("x",) * has_x, ("edge_attr",) * (store.edge_attr is not None))
    rows = GraphRows(store, torch.arange(size), size, source=source, features=use)
    return replace(rows, split=file.split, folds=file.folds)


def _limited(rows: GraphRows, limit: int | None) -> GraphRows:
    if limit is None or rows.num_rows <= limit:
        return rows
    few = rows.subset((rows.position < limit).nonzero().flatten())
    bad = tuple(row for row in few.bad if row.number <= limit)
    columns = {name: values[:limit] for name, values in few.columns.items()}
    names = few.names[:limit]
    return replace(few, num_rows=limit, bad=bad, columns=columns, names=names)


def is_path(text: str) -> bool:
    """Return whether a text is a path, and not a SMILES string or data set name."""
    known = (*MOLECULE_SUFFIXES, *READERS)
    return format_suffix(Path(text)) in known or os.path.exists(text)


def is_one_graph(data: Any) -> bool:
    """Return whether data are one graph; False if `as_rows` cannot read them."""
    with suppress(GnnakError):
        if isinstance(data, GraphStore):
            return len(data) == 1
        if not isinstance(data, str | os.PathLike):
            return len(as_items(data)) == 1
        path = Path(data)
        if format_suffix(path) == ".npz":
            return not path.is_dir() and holds_one_graph(path)
        read = LISTS.get(format_suffix(path))
        return read is not None and not path.is_dir() and len(read(path)) == 1
    return False


PACKED = ("compressed", "unpack it and give")
SHEET = ("a spreadsheet", "save it as CSV and give")
OTHERS = {
    **dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst", ".tar", ".tgz"), PACKED),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), SHEET),
    **dict.fromkeys((".pkl", ".pickle"), ("a pickle, which could run code", "give")),
}
"""Maps suffixes of unsupported files to their kind, and advice for the message."""
EDGE_LISTS = (".edges", ".edgelist", ".txt")
LISTS: dict[str, Callable[[Path], Sequence[Any]]] = {
    ".pt": read_pyg,
    ".pth": read_pyg,
    ".json": read_node_link,
    ".jsonl": read_node_link,
    **dict.fromkeys(EDGE_LISTS, lambda path: [*read_edge_lists(path).values()]),
}
"""Maps suffixes to functions that read a list of PyG or networkx graphs."""
READERS: dict[str, Callable[[Path, Reading], GraphRows]] = {
    ".npz": lambda path, _: _from_file(read_npz(path), str(path)),
    ".g6": _read_graph6,
    ".graph6": _read_graph6,
    **dict.fromkeys(LISTS, _read_listed),
    **dict.fromkeys(EDGE_LISTS, _read_edge_lists),
}
"""Maps suffixes of graph files to readers. Files of molecules have other suffixes."""


def is_data_file(path: Path) -> bool:
    """Return whether a path has the suffix of a data file; False for `.pt`, `.pth`."""
    of_data = {*MOLECULE_SUFFIXES, *READERS} - {".pt", ".pth"}  # or of checkpoints
    return format_suffix(path) in of_data and not path.is_dir()
