"""`GraphRows`: graphs read row by row, together with the rows that are not graphs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any, NamedTuple

from torch import Tensor

from gnnak.errors import FileFormatError, counted
from gnnak.graphs.store import GraphStore

SHOWN = 3
"""Largest number of bad rows that an error message names."""


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
    """Names of the attributes of the user's graphs: features, and those not used."""

    nodes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    unused_nodes: tuple[str, ...] = ()
    unused_edges: tuple[str, ...] = ()
    unused_graphs: tuple[str, ...] = ()
    """Columns of a table, or attributes of whole graphs."""
    texts: tuple[str, ...] = ()
    """Attributes of nodes and edges that have texts as values."""

    def without(self, names: Collection[str | None]) -> FeatureUse:
        nodes, edges, graphs = (
            tuple(name for name in given if name not in names)
            for given in (self.unused_nodes, self.unused_edges, self.unused_graphs)
        )
        return FeatureUse(self.nodes, self.edges, nodes, edges, graphs, self.texts)

    def line(self, are_columns: bool = False) -> str:
        """Name the features and the unused attributes, and say how to add features.

        `are_columns` says whether `unused_graphs` are columns of a table.
        """
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
            hint = f"add numbers with {' '.join(flags)} ({', '.join(python)})"
            ignored.append(hint)
        elif self.unused_nodes or self.unused_edges:
            ignored.append("only numbers can be features")
        elif ignored:
            ignored.append("only nodes and edges have features")
        return "; ".join([*used, *ignored])


MOST_NAMES = 12
"""Largest number of names that a list in a message has."""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


@dataclass(frozen=True, eq=False)
class GraphRows:
    """Graphs from a file or a list, one per row, without the rows that are bad."""

    store: GraphStore
    """The g graphs of the good rows, in the order of the rows."""
    position: Tensor
    """[g], int64, increasing: the row that each graph comes from, counted from 0."""
    num_rows: int
    bad: tuple[BadRow, ...] = ()
    """The rows that are not graphs, in order."""
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Texts or numbers by name, one per row, good or bad: the columns of a table, or
    the graph attributes of networkx graphs. Empty if the data have none."""
    node_columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Node attributes of networkx graphs by name, one value per node of good rows."""
    source: str = "the data"
    """Name of the file, or other words for error messages."""
    molecules: tuple[str, ...] | None = None
    """The SMILES string of each graph; None if the graphs are not molecules."""
    split: Tensor | None = None
    """[g], int64: 0 train, 1 validation, 2 test; None if the data have no split. For
    one graph, it may be a split of the nodes; see `GraphFile`."""
    folds: Tensor | None = None
    """[k, g], int64: 0 train, 1 test, -1 not used; None if the data have no folds."""
    schema: Any = None
    """The pyarrow schema of `columns` of a Parquet file; None for other data."""
    share: float = 1.0
    """Which share of the data is read, up to and including these rows."""
    decimal_commas: bool = False
    """Whether numbers in `columns` may have decimal commas; see `OpenTable`."""
    features: FeatureUse = FeatureUse()
    """Names of the attributes of nodes, edges and graphs; empty for molecules."""
    unread_y: str = ""
    """Why `y` of the graphs was not read, as a sentence; empty if it was."""
    one_way: bool = False
    """Whether all edges of PyG data come in one direction only."""

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
        molecules = self.molecules
        return replace(
            self,
            store=self.store.subset(indices),
            position=self.position[indices],
            bad=tuple(sorted([*self.bad, *also_bad])),
            molecules=molecules and tuple(molecules[i] for i in indices.tolist()),
            split=self.split if self.is_one_graph else _take(self.split, indices),
            folds=None if self.folds is None else self.folds[:, indices],
        )


def _take(values: Tensor | None, indices: Tensor) -> Tensor | None:
    return None if values is None else values[indices]


def check_any(rows: GraphRows) -> None:
    """Raise `FileFormatError` if no row is a graph, or no graph has a node."""
    if not rows.num_rows:
        raise FileFormatError(f"{rows.source} has no graphs; add some.")
    if not len(rows):
        shown = "; ".join(str(row) for row in rows.bad[:SHOWN])
        count = rows.num_rows
        which = "the only row cannot" if count == 1 else f"none of the {count} rows can"
        raise FileFormatError(
            f"{rows.source}: {which} be used ({shown}); correct the data."
        )
    if not int(rows.store.node_ptr[-1]):
        raise FileFormatError(
            f"{rows.source}: none of the {len(rows)} graphs has a node; give graphs "
            "with nodes."
        )


class BadRowsError(FileFormatError):
    """Some rows cannot be used; the field `told` says which, without advice."""

    def __init__(self, told: str) -> None:
        super().__init__(
            f"{told}; correct them, or leave them out with --skip-bad (skip_bad=True)."
        )
        self.told = told


def refuse(source: str, bad: Sequence[BadRow], num_rows: int) -> None:
    """Raise `BadRowsError` if there are bad rows, and name the first ones."""
    if not bad:
        return
    shown = "; ".join(str(row) for row in bad[:SHOWN])
    more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
    raise BadRowsError(
        f"{source}: {len(bad)} of {counted(num_rows, 'row')} cannot be used "
        f"({shown}{more})"
    )
