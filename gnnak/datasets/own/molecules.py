"""Read molecules from tables and lists of SMILES strings, and featurize them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gnnak.datasets.record import DatasetInfo
from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.files import FilePath, read_text
from gnnak.graphs.readers.rows import BadRow, GraphRows, joined_rows
from gnnak.graphs.readers.smiles import (
    ATOM_FEATURES,
    ATOM_TYPES,
    BOND_FEATURES,
    BOND_TYPES,
    from_molecules,
    parse_smiles,
    zinc_from_molecules,
)
from gnnak.graphs.readers.table import open_table
from gnnak.nn.features import Categorical
from gnnak.typing import check_known


class Featurizer(NamedTuple):
    """One way to convert molecules to graphs."""

    convert: Callable[[Sequence[Any]], GraphStore]
    """Converts rdkit molecules to graphs."""
    nodes: Categorical
    edges: Categorical
    fill_unseen: bool = False
    """Whether training on one of gnnak's data sets sets the embeddings of categories
    that do not occur in the training graphs. Training on the user's data always sets
    them. Scores on ZINC do not depend on it: its test graphs have no such category."""


FEATURIZERS = {
    "ogb": Featurizer(
        from_molecules,
        Categorical(tuple(size for _, size, _ in ATOM_FEATURES)),
        Categorical(tuple(size for _, size, _ in BOND_FEATURES)),
    ),
    "zinc": Featurizer(
        zinc_from_molecules,
        Categorical((len(ATOM_TYPES),)),
        Categorical((len(BOND_TYPES) + 1,)),
        fill_unseen=True,
    ),
}
"""Featurizers by name: the features of the Open Graph Benchmark, and those of ZINC."""


def find_featurizer(info: DatasetInfo) -> str | None:
    """Return the name of the featurizer that gives a data set's features, or None."""
    for name, kind in FEATURIZERS.items():
        fits = (info.node_features, info.edge_features) == (kind.nodes, kind.edges)
        # The features of ZINC are so simple that other graphs may have the same sizes.
        if fits and (name == "ogb" or (info.name == name and not info.own_data)):
            return name
    return None


def need_featurizer(info: DatasetInfo) -> str:
    """Return `find_featurizer(info)`, or raise `OptionError` if there is none."""
    found = find_featurizer(info)
    if found is None:
        told = f"this network was trained on {info.name} with other features than those"
        raise OptionError(f"{told} of SMILES strings; give graphs.")
    return found


CHUNK = 2_000
"""Number of rows read at a time; bounds the memory of rdkit's molecules."""
SMILES_NAMES = ("smiles", "smi", "structure", "mol", "molecule")
"""Names, in lower case, by which the column with SMILES strings is recognised."""


def molecules_in_list(
    smiles: Sequence[Any], source: str = "the list of SMILES", featurizer: str = "ogb"
) -> GraphRows:
    """Convert SMILES strings to graphs; invalid strings become bad rows."""
    convert = FEATURIZERS[featurizer].convert
    texts, stores = list(smiles), [convert([])]
    position, bad = [], []
    for first in range(0, len(texts), CHUNK):
        good = []
        chunk = parse_smiles(texts[first : first + CHUNK])
        for row, molecule in enumerate(chunk, start=first):
            if isinstance(molecule, str):
                bad.append(BadRow(row + 1, molecule))
            else:
                position.append(row)
                good.append(molecule)
        stores.append(convert(good))
    return GraphRows(
        GraphStore.concatenate(stores),
        torch.tensor(position, dtype=torch.long),
        len(texts),
        tuple(bad),
        source=source,
        molecules=tuple(str(texts[row]) for row in position),
    )


def molecule_chunks(
    path: FilePath,
    smiles: str | None = None,
    size: int = CHUNK,
    featurizer: str = "ogb",
) -> Iterator[GraphRows]:
    """Yield the molecules of a table in chunks of `size` rows, to bound the memory.

    The field `bad` of a chunk counts rows from the start of the file, and the field
    `position` counts rows from the start of the chunk.
    """
    with open_table(path) as table:
        column = find_smiles(path, smiles, table.names)
        place = table.names.index(column)
        first = 0
        while rows := list(islice(table.rows, size)):
            texts = [row.cells[place] for row in rows]
            if not first:
                _refuse_numbers(path, column, texts)
            part = molecules_in_list(texts, str(path), featurizer)
            reasons = {row.number: row.reason for row in part.bad}
            reasons |= {r.number - first: r.problem for r in rows if r.problem}
            bad = [BadRow(n + first, reasons[n]) for n in sorted(reasons)]
            kept = [i for i, p in enumerate(part.position) if int(p) + 1 not in reasons]
            cells = zip(*(row.cells for row in rows), strict=True)
            columns = dict(zip(table.names, map(list, cells), strict=True))
            part = part.subset(torch.tensor(kept, dtype=torch.long))
            part = replace(part, bad=tuple(bad), columns=columns)
            yield replace(part, decimal_commas=table.decimal_commas)
            first += len(rows)
    if not first:
        raise FileFormatError(f"{path} has a header but no rows; add rows.")


def molecule_table(
    path: FilePath,
    smiles: str | None = None,
    limit: int | None = None,
    featurizer: str = "ogb",
) -> GraphRows:
    """Read a whole table of molecules, or its first `limit` rows."""
    parts, first, size = [], 0, min(CHUNK, limit or CHUNK)
    for part in molecule_chunks(path, smiles, size, featurizer):
        bad = [BadRow(row.number - first, row.reason) for row in part.bad]
        parts.append(replace(part, bad=tuple(bad)))
        first += part.num_rows
        if limit is not None and first >= limit:
            break
    return joined_rows(parts, str(path))


def find_smiles(path: FilePath, wanted: str | None, names: Sequence[str]) -> str:
    """Return the column with SMILES strings; raise `OptionError` if there is none."""
    if wanted is not None:
        check_known("column", wanted, names, of=f" in {Path(path).name}")
        return wanted
    lower = {column.lower(): column for column in reversed(names)}
    for name in SMILES_NAMES:
        if name in lower:
            return lower[name]
    raise OptionError(
        f"{Path(path).name} has no column named smiles in its header; name the column "
        f"of SMILES strings with --smiles, one of: {', '.join(names[:20])}; see "
        "docs/formats.md#tables."
    )


def _refuse_numbers(path: FilePath, column: str, texts: Sequence[str]) -> None:
    given = [text for text in texts if text]
    if given and all(map(_is_number, given)):
        told = f"column {column} of {Path(path).name} has numbers, such as {given[0]}"
        raise OptionError(f"{told}, and no SMILES strings; name another with --smiles.")


def _is_number(text: str) -> bool:
    """Return whether a text is a number; `NO`, a valid SMILES string, is not."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def read_smi(path: FilePath, featurizer: str = "ogb") -> GraphRows:
    """Read a `.smi` file: one SMILES string per line; further words are ignored."""
    text = read_text(path, "docs/formats.md#smiles")
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return molecules_in_list([words[0] for words in lines], str(path), featurizer)
