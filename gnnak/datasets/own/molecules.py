"""Read molecules from tables and lists of SMILES strings, and featurize them."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gnnak.datasets.record import DatasetInfo
from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.files import (
    FilePath,
    format_suffix,
    open_bytes,
    refusing,
    share_read,
    visible_files,
)
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
from gnnak.graphs.readers.table import (
    TABLE_SUFFIXES,
    OpenTable,
    TableRow,
    checked_parquet,
    import_pyarrow,
    open_table,
)
from gnnak.nn.features import Categorical
from gnnak.typing import check_known


class Featurizer(NamedTuple):
    convert: Callable[[Sequence[Any]], GraphStore]
    """Converts rdkit molecules to graphs."""
    nodes: Categorical
    edges: Categorical
    fill_unseen: bool = False
    """Whether categories that no training graph has get the mean embedding after the
    training on a data set of gnnak. With the user's data, they always get it."""


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
    for name, kind in FEATURIZERS.items():
        fits = (info.node_features, info.edge_features) == (kind.nodes, kind.edges)
        # The features of ZINC are so simple that other graphs may have the same sizes.
        if fits and (name == "ogb" or (info.name == name and not info.own_data)):
            return name
    return None


def need_featurizer(info: DatasetInfo) -> str:
    found = find_featurizer(info)
    if found is None:
        told = f"this network was trained on {info.name} with other features than those"
        raise OptionError(f"{told} of SMILES strings; give graphs.")
    return found


CHUNK = 2_000
"""Number of rows read at a time; bounds the memory of rdkit's molecules."""
SMILES_NAMES = ("smiles", "smi", "structure", "mol", "molecule")
"""Names, in lower case, by which the column with SMILES strings is recognised."""


def molecules_in_list(smiles: Sequence[Any], featurizer: str = "ogb") -> GraphRows:
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
        source="the list of SMILES",
        molecules=tuple(str(texts[row]) for row in position),
    )


MOLECULE_SUFFIXES = (*TABLE_SUFFIXES, ".smi")


def molecule_files(path: FilePath) -> list[Path]:
    """List a file, or the files of a folder; [] unless all are tables or `.smi`."""
    where = Path(path)
    files = [where]
    if where.is_dir():
        files = [f for f in visible_files(where) if not f.name.startswith("_")]
    known = all(format_suffix(file) in MOLECULE_SUFFIXES for file in files)
    return files if known else []


def molecule_chunks(
    path: FilePath,
    smiles: str | None = None,
    size: int = CHUNK,
    featurizer: str = "ogb",
    skip: int = 0,
) -> Iterator[Callable[[], GraphRows]]:
    """Read `size` rows at a time; yield functions that convert them to molecules.

    The files share one numbering of rows.
    """
    files = molecule_files(path) or [Path(path)]
    names, schema = _check_headers(files, smiles)
    sizes = [file.stat().st_size for file in files]
    first = 0
    for index, file in enumerate(files):
        with _open(file) as table:
            while rows := list(islice(table.rows, size)):
                first += len(rows)
                if first <= skip:
                    continue
                read = sum(sizes[:index]) + table.share(rows[-1].number) * sizes[index]
                places = [(name, table.names.index(name)) for name in names]
                yield partial(
                    _as_molecules,
                    *(file, table.names, rows, smiles, featurizer),
                    before=first - len(rows),
                    columns={n: [row.cells[i] for row in rows] for n, i in places},
                    source=str(path),
                    schema=schema,
                    share=read / sum(sizes),
                    decimal_commas=table.decimal_commas,
                )
    if not first:
        what = "a header but no rows; add rows" if names else "no graphs; add some"
        raise FileFormatError(f"{path} has {what}.")


def _check_headers(files: list[Path], smiles: str | None) -> tuple[list[str], Any]:
    headers, schemas = [], []
    for file in files:
        with _open(file) as table:
            headers.append(list(table.names))
            schemas += [] if table.schema is None else [table.schema]
        if table.names:
            find_smiles(file, smiles, table.names)
        if differing := set(headers[0]) ^ set(table.names):
            other = ", ".join(sorted(differing)[:5])
            told = f"{files[0]} and {file} differ in the columns {other}"
            raise FileFormatError(f"{told}; give files with the same columns.")
    if not schemas:
        return headers[0], None
    with checked_parquet(files[0].parent):
        unify = import_pyarrow().unify_schemas
        return headers[0], unify(schemas, promote_options="permissive")


@contextmanager
def _open(path: Path) -> Iterator[OpenTable]:
    if format_suffix(path) != ".smi":
        with open_table(path) as table:
            yield table
        return
    told = f"{path} is not UTF-8 text; see docs/formats.md#smiles."
    with (
        refusing(told, UnicodeDecodeError),
        open_bytes(path) as raw,
        io.TextIOWrapper(raw, "utf-8-sig") as lines,
    ):
        words = filter(None, map(str.split, lines))
        rows = (TableRow(number, each[:1]) for number, each in enumerate(words, 1))
        yield OpenTable((), rows, lambda _: share_read(raw))


def _as_molecules(
    file: Path,
    names: Sequence[str],
    rows: Sequence[TableRow],
    smiles: str | None,
    featurizer: str,
    before: int,
    **fields: Any,
) -> GraphRows:
    """Convert rows of a file to `GraphRows` with these fields.

    `before` rows of this and other files come before them.
    """
    column = find_smiles(file, smiles, names) if names else None
    place = names.index(column) if column else 0
    texts = ["" if row.cells[place] is None else row.cells[place] for row in rows]
    if column and rows[0].number == 1:
        _refuse_numbers(file, column, texts)
    part = molecules_in_list(texts, featurizer=featurizer)
    reasons = {row.number: row.reason for row in part.bad}
    reasons |= {i: row.problem for i, row in enumerate(rows, start=1) if row.problem}
    good = [i for i, p in enumerate(part.position.tolist()) if p + 1 not in reasons]
    return replace(
        part.subset(torch.tensor(good, dtype=torch.long)),
        bad=tuple(BadRow(before + row, reasons[row]) for row in sorted(reasons)),
        **fields,
    )


def molecule_table(
    path: FilePath,
    smiles: str | None = None,
    limit: int | None = None,
    featurizer: str = "ogb",
) -> GraphRows:
    """Read all molecules of a file or folder, or the first `limit` rows."""
    parts, first, size = [], 0, min(CHUNK, limit or CHUNK)
    for convert in molecule_chunks(path, smiles, size, featurizer):
        part = convert()
        bad = [BadRow(row.number - first, row.reason) for row in part.bad]
        parts.append(replace(part, bad=tuple(bad)))
        first += part.num_rows
        if limit is not None and first >= limit:
            break
    return joined_rows(parts, str(path))


def find_smiles(path: FilePath, wanted: str | None, names: Sequence[str]) -> str:
    """Return the column with SMILES strings; raise `OptionError` if there is none."""
    if wanted is not None:
        more = "; name the column of SMILES strings with --smiles (smiles=...)"
        check_known("column", wanted, names, more, of=f" in {Path(path).name}")
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


def _refuse_numbers(path: FilePath, column: str, texts: Sequence[Any]) -> None:
    given = [str(text) for text in texts if text != ""]
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
