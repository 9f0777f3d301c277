"""`GraphRows`: graphs read row by row, and the rows that cannot be used as graphs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.errors import FileFormatError, counted
from gnnak.graphs.store import GraphStore

SHOWN = 3
"""An error message names at most this many bad rows."""


class BadRow(NamedTuple):
    """A row of the user's data that cannot be used."""

    number: int
    """Number of the row, from 1; the header of a table is not counted."""
    reason: str
    """What is wrong, such as "'C1CC' is not a molecule"."""

    def __str__(self) -> str:
        return f"row {self.number}: {self.reason}"


@dataclass(frozen=True)
class FeatureUse:
    """Which attributes of the user's graphs are features, and which are unused."""

    nodes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    unused_nodes: tuple[str, ...] = ()
    unused_edges: tuple[str, ...] = ()
    unused_graphs: tuple[str, ...] = ()
    """Unused columns of a table, or unused attributes of whole graphs."""
    texts: tuple[str, ...] = ()
    """Attributes of nodes and edges that have texts as values."""

    def without(self, names: Collection[str | None]) -> FeatureUse:
        unused = self.unused_nodes, self.unused_edges, self.unused_graphs
        left = [tuple(name for name in each if name not in names) for each in unused]
        return FeatureUse(self.nodes, self.edges, left[0], left[1], left[2], self.texts)

    def line(self, are_columns: bool = False) -> str:
        """Return a text about used and unused attributes, and how to use more."""
        used, ignored, flags, python = [], [], [], []
        for owner in ("node", "edge"):
            names: tuple[str, ...] = getattr(self, f"{owner}s")
            unused: tuple[str, ...] = getattr(self, f"unused_{owner}s")
            used.append(f"{owner} features: {_listed(names) or 'none'}")
            if unused:
                ignored.append(f"ignored {owner} attributes: {_listed(unused)}")
            if numbers := [name for name in unused if name not in self.texts]:
                chosen = [*names, numbers[0]]
                flags += [f"--{owner}-attr {quote(name)}" for name in chosen]
                python.append(f"{owner}_attr={chosen}")
        if self.unused_graphs:
            kind = "columns" if are_columns else "graph attributes"
            ignored.append(f"ignored {kind}: {_listed(self.unused_graphs)}")
        if flags:
            ignored.append(f"add numbers with {' '.join(flags)} ({', '.join(python)})")
        elif self.unused_nodes or self.unused_edges:
            ignored.append("only numbers can be features")
        elif ignored:
            ignored.append("only nodes and edges have features")
        return "; ".join([*used, *ignored])


MOST_NAMES = 12
"""A list in a message has at most this many names."""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


@dataclass(frozen=True, eq=False)
class GraphRows:
    """Graphs from a file or a list, one per row. The rows in `bad` have no graph."""

    store: GraphStore
    """The g graphs of all rows that are not bad, in the order of the rows."""
    position: Tensor
    """[g], int64, increasing: the row that each graph comes from, counted from 0."""
    num_rows: int
    bad: tuple[BadRow, ...] = ()
    """The rows that cannot be used, in order."""
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The columns of a table, or graph attributes of networkx, by name: one text or
    number for every row, also for bad rows."""
    node_columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Node attributes of networkx graphs by name, one value per node of `store`."""
    source: str = "the data"
    """What error messages call the data, such as the name of the file."""
    molecules: tuple[str, ...] | None = None
    """The SMILES string of each graph; None if the graphs are not molecules."""
    split: Tensor | None = None
    """The split of the graphs, or of one graph's nodes, as in `GraphFile.split`."""
    folds: Tensor | None = None
    """The cross-validation folds, [folds, g], as in `GraphFile.folds`."""
    names: tuple[str, ...] = ()
    """The names of the graphs in an edge list, one per row; empty for other data."""
    schema: Any = None
    """The pyarrow schema of `columns` of a Parquet file; None for other data."""
    share: float = 1.0
    """How much of all data, from 0 to 1, has been read at the end of these rows."""
    decimal_commas: bool = False
    """Whether numbers in `columns` may have decimal commas; see `OpenTable`."""
    features: FeatureUse = FeatureUse()
    """Names of the attributes of nodes, edges and graphs; empty for molecules."""
    unread_y: str = ""
    """A sentence that says why the targets `y` were not read; empty if they were."""
    one_way: bool = False
    """Whether no edge of the PyG data has a reverse edge."""

    def __len__(self) -> int:
        return len(self.store)

    @property
    def is_one_graph(self) -> bool:
        """Whether the data are one graph with targets of its nodes."""
        return len(self) == self.num_rows == 1 and self.store.node_targets

    def column(self, name: str) -> list[Any]:
        values = self.columns[name]
        return [values[row] for row in self.position.tolist()]

    def subset(self, indices: Tensor, also_bad: Sequence[BadRow] = ()) -> GraphRows:
        molecules, split = self.molecules, self.split
        if split is not None and not self.is_one_graph:
            split = split[indices]
        return replace(
            self,
            store=self.store.subset(indices),
            position=self.position[indices],
            bad=tuple(sorted([*self.bad, *also_bad])),
            molecules=molecules and tuple(molecules[i] for i in indices.tolist()),
            split=split,
            folds=None if self.folds is None else self.folds[:, indices],
        )


def joined_rows(parts: Sequence[GraphRows], source: str) -> GraphRows:
    """Concatenate the rows of several files, or of several parts of one file."""
    first, position, bad = 0, [], []
    for part in parts:
        position.append(part.position + first)
        bad += [BadRow(row.number + first, row.reason) for row in part.bad]
        first += part.num_rows
    names, per_node = parts[0].columns, parts[0].node_columns
    shared = [name for name in per_node if all(name in p.node_columns for p in parts)]
    molecules = [part.molecules for part in parts]
    return GraphRows(
        GraphStore.concatenate([part.store for part in parts]),
        torch.cat(position),
        first,
        tuple(bad),
        {name: [v for p in parts for v in p.columns[name]] for name in names},
        {name: [v for p in parts for v in p.node_columns[name]] for name in shared},
        source,
        None if None in molecules else tuple(t for m in molecules for t in m or ()),
        decimal_commas=parts[0].decimal_commas,
        features=parts[0].features,
        one_way=all(part.one_way for part in parts),
    )


def check_any(rows: GraphRows) -> None:
    """Raise `FileFormatError` if no row can be used, or if no graph has a node."""
    if not rows.num_rows:
        raise FileFormatError(f"{rows.source} has no graphs; add some.")
    if not len(rows):
        shown, count = "; ".join(map(str, rows.bad[:SHOWN])), rows.num_rows
        which = "the only row cannot" if count == 1 else f"none of the {count} rows can"
        told = f"{rows.source}: {which} be used ({shown})"
        raise FileFormatError(f"{told}; correct the data.")
    if not int(rows.store.node_ptr[-1]):
        told = f"none of the {len(rows)} graphs has a node; give graphs with nodes"
        raise FileFormatError(f"{rows.source}: {told}.")


class BadRowsError(FileFormatError):
    """Some rows cannot be used; `told` is the error message without the advice."""

    def __init__(self, told: str) -> None:
        super().__init__(
            f"{told}; correct them, or leave them out with --skip-bad (skip_bad=True)."
        )
        self.told = told


def refuse(source: str, bad: Sequence[BadRow], num_rows: int) -> None:
    if bad:
        raise BadRowsError(_which_cannot_be_used(source, bad, num_rows, "row"))


def refuse_nodes(source: str, bad: Sequence[BadRow], num_nodes: int, how: str) -> None:
    if bad:
        nodes = [(row.number - 1, row.reason) for row in bad]
        told = _which_cannot_be_used(source, nodes, num_nodes, "node")
        raise FileFormatError(f"{told}; {how}.")


def _which_cannot_be_used(
    source: str, bad: Sequence[tuple[int, str]], total: int, what: str
) -> str:
    shown = "; ".join(f"{what} {number}: {reason}" for number, reason in bad[:SHOWN])
    more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
    which = f"{len(bad)} of {counted(total, what)}"
    return f"{source}: {which} cannot be used ({shown}{more})"
