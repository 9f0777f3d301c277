"""Damaged and hostile files, each with what `gnnak train` and `gnnak predict` say."""

import gzip
import io
import pickle
import zipfile
from typing import NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

GOOD = "\n".join(f"{'C' * (i + 1)},{i}.5" for i in range(12))
EDGES = torch.tensor([[0, 1], [1, 0]])


class Kind(NamedTuple):
    """The content of a file, and what the program says about it."""

    content: bytes
    train: str
    """A part of the sentence of `gnnak train`."""
    predict: str | int
    """A part of the sentence of `gnnak predict`; or the number of rows that it marks
    as bad, if it goes on."""


def table(first: str, train: str, predict: str | int, header: str = "smiles,y") -> Kind:
    """Return a table of 12 good molecules after one other row."""
    return Kind(f"{header}\n{first}{GOOD}".encode(), train, predict)


def both(content: str | bytes, sentence: str) -> Kind:
    """Return a file about which both commands say the same."""
    content = content.encode() if isinstance(content, str) else content
    return Kind(content, sentence, sentence)


def pt(train: str, predict: str, y: float, **fields: object) -> Kind:
    """Return five PyG graphs that are equal except for their targets."""
    content = io.BytesIO()
    torch.save([Data(**fields, y=y + number) for number in range(5)], content)
    return Kind(content.getvalue(), train, predict)


def saved(**arrays: np.ndarray) -> bytes:
    """Return the bytes of an npz file."""
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def zipped(content: bytes) -> bytes:
    """Return an npz file with one array of the given bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("num_nodes.npy", content)
    return out.getvalue()


def bomb() -> bytes:
    """Return a small npz file that announces 8 GB."""
    head = io.BytesIO()
    of = {"descr": "<i8", "fortran_order": False, "shape": (10**9,)}
    np.lib.format.write_array_header_1_0(head, of)
    return zipped(head.getvalue() + bytes(10**6))


PACKED = gzip.compress(f"smiles,y\n{GOOD}".encode())
PICKLE = pickle.dumps({"smiles": ["C"], "y": [1]})
WIDTH = "but the network was trained with 9 columns; give the same features"
NO_TARGETS = "has no targets"
KINDS = {
    "empty.csv": both("", "empty.csv is empty; give a table with a header; see docs/"),
    "blank.csv": both("\n\n \n", "is empty; give a table with a header; see docs/"),
    "header only.csv": both("smiles,y\n", "has a header but no rows; add rows."),
    "broken smiles.csv": Kind(
        b"smiles,y\nC1CC,1\nC(,2\nQ,3\n",
        "none of the 3 rows can be used (row 1: 'C1CC' is not a molecule; row 2",
        3,
    ),
    "one broken row.csv": table("Q,1\n", "1 of 13 rows cannot be used (row 1: 'Q'", 1),
    "nan targets.csv": Kind(b"smiles,y\nC,nan\nCC,\nCCC,NA\n", "row 2: y is empty", 0),
    "infinite target.csv": table("C,inf\n", "y is 'inf', not a finite number", 0),
    "huge target.csv": table("C,1e308\n", "y is '1e308', not a finite number", 0),
    "words as numbers.csv": table("C,one\n", "y is 'one', not a finite number", 0),
    "constant class.csv": Kind(
        b"smiles,y\nC,a\nCC,a\nCCC,a\n",
        "y is a in all 3 rows, so there",
        0,
    ),
    "one row.csv": Kind(b"smiles,y\nC,1\n", "give at least three, for training", 0),
    "duplicated columns.csv": both(f"smiles,y,y\n{GOOD}", "2 columns named 'y'; rena"),
    "nameless column.csv": table("", "no named column besides smiles", 0, "smiles,"),
    "many columns.csv": both(",".join(map(str, range(20000))), "give at most 10000."),
    "no smiles column.csv": both(f"formula,y\n{GOOD}", "with --smiles, one of: formu"),
    "html.csv": both("<!DOCTYPE html><p>404</p>", "with --smiles, one of: <!DOCTYPE"),
    "missing cells.csv": table("C\n", "it has 1 cell, but the header has 2", 1),
    "surplus cells.csv": table("C,1,2\n", "it has 3 cells, but the header has 2", 1),
    "open quote.csv": both(f'smiles,y\n"C,1\n{GOOD}', "(a quote is not closed); save"),
    "quotes inside.csv": table('C"C"C,1\n', "'C\"C\"C' is not a molecule", 1),
    "formula.csv": table("\"=cmd|' /C calc'!A0\",1\n", "/C calc'!A0\" is not a mol", 1),
    "unicode smiles.csv": table("СО₂,1\n", "'СО₂' is not a molecule", 1),
    "control characters.csv": table("\x1b[31mC,1\n", r"'\x1b[31mC' is not a mol", 1),
    "right to left.csv": table("\u202eOCC,1\n", r"'\u202eOCC' is not a molecule", 1),
    "zero byte.csv": table("C\0C,1\n", r"'C\x00C' is not a molecule", 1),
    "long smiles.csv": table("C" * 20000 + ",1\n", "longer than 10000 characters", 1),
    "deep smiles.csv": table("C(" * 4000 + ",1\n", "...' is not a molecule", 1),
    "huge cell.csv": both(f"smiles,y\n{'C' * 200000},1\n", "field larger than field"),
    "spaces.csv": both("smiles y\nC 1\n", "no column named smiles in its header; n"),
    "numbers.csv": both(
        "smiles,y\n1,2\n0.5,1\n", "smiles of numbers.csv has numbers, s"
    ),
    "short.csv.gz": both(b"\x1f\x8b", "short.csv.gz ends too early; compress or down"),
    "cut.csv.gz": both(PACKED[:-9], "cut.csv.gz ends too early; compress or downloa"),
    "checksum.tsv.gz": both(PACKED[:-8] + bytes(8), "is damaged; compress or download"),
    "garbage.smi.gz": both(PACKED[:10] + bytes(9), "is damaged; compress or download"),
    "plain.csv.gz": both(f"smiles,y\n{GOOD}", "is not compressed with gzip; leave out"),
    "empty.csv.gz": both(
        gzip.compress(b""), "is empty; give a table with a header; see docs/"
    ),
    "pickle.csv.gz": both(gzip.compress(PICKLE), "not a CSV table (it is not UTF-8 te"),
    "table.csv.bz2": both(b"BZh9", "is compressed; unpack it and give a folder or a"),
    "tables.tar.gz": both(PACKED, "is compressed; unpack it and give a folder or a f"),
    "arrays.npz.gz": both(PACKED, "is compressed; unpack it and give a folder or a f"),
    "table.xlsx": both(b"PK\x03\x04", "is a spreadsheet; save it as CSV and give a"),
    "table.pkl": both(PICKLE, "is a pickle, which could run code; give a folder or"),
    "latin.csv": both("smiles,größe\nC,1\n".encode("latin-1"), "it is not UTF-8 text"),
    "utf16.csv": both(
        "smiles,y\nC,1\n".encode("utf-16"), "save it as CSV in UTF-8; see "
    ),
    "zeros.csv": both(bytes(1000), "it has zero bytes); save it as CSV"),
    "gzip.csv": both(gzip.compress(b"smiles,y\nC,1\n"), "it is not UTF-8 text"),
    "pickle in disguise.csv": both(PICKLE, "not a CSV table (it is not UTF-8 text)"),
    "pickle in disguise.pt": both(PICKLE, "objects other than tensors and PyG Data"),
    "pickle in disguise.npz": both(PICKLE, "it has Python objects, which could run"),
    "pickle in disguise.json": both(PICKLE, "is not JSON (it is not UTF-8 text); gi"),
    "objects.npz": both(
        saved(num_nodes=np.array([{}], dtype=object)), "Python objects, which could"
    ),
    "nonsense.npz": both(zipped(b"nonsense"), "num_nodes is not an array."),
    "bomb.npz": both(bomb(), "announces shape [1000000000], more than the file"),
    "other.npz": both(
        saved(a=np.arange(3)), "has an unknown key a; see docs/formats.md#npz."
    ),
    "broken.json": both("{", "broken.json is not JSON (Expecting property name"),
    "deep.json": both("[" * 100000, "it is nested too deeply); give networkx graphs"),
    "no graphs.json": both("[]", "no graphs.json has no graphs; add some."),
    "not graphs.jsonl": Kind(b'{"a": 1}\n{"b": 2}\n', "none of the 2 rows can be", 2),
    "missing node.json": Kind(
        b'[{"nodes": [{"id": 1}], "edges": [{"source": 1}]}]',
        "not a node-link graph",
        1,
    ),
    "infinite.json": both(
        b'[{"nodes": [{"id": 1, "x": 1e400}, {"id": 2, "x": ' + b"9" * 400 + b"}]}]",
        "none of the graphs can be used: it is malformed",
    ),
    "broken.g6": Kind(b"hello world\n", "the only row cannot be used (row 1: ", 1),
    "huge.g6": Kind(b"~~~~~~~~\n", "the only row cannot be used (row 1: ", 1),
    "zeros.g6": Kind(bytes(1000), "the only row cannot be used (row 1: ", 1),
    "broken.edges": both("a b c d e\n", "line 1: got 5 words; write two nodes, or"),
    "empty.edges": both("", "empty.edges has no graphs; add some."),
    "huge ids.edges": Kind(b"1 99999999999999999999\n2 3\n", NO_TARGETS, WIDTH),
    "unknown.xyz": both("3\n\nC 0 0 0\n", "is of the unknown kind '.xyz'; give a fo"),
    "outside.pt": pt(
        *["edge_index joins nodes 0 and 9 in graph 0, which has 2 nodes"] * 2,
        edge_index=torch.tensor([[0], [9]]),
        num_nodes=2,
        y=1.0,
    ),
    "negative.pt": pt(
        *["edge_index joins nodes 0 and -1 in graph 0"] * 2,
        edge_index=-EDGES,
        num_nodes=2,
        y=1.0,
    ),
    "float edges.pt": pt(
        *["edge_index has dtype torch.float32; convert it with .long()."] * 2,
        edge_index=EDGES.float(),
        num_nodes=2,
        y=1.0,
    ),
    "nan features.pt": pt(
        "x of node 0 of graph 0 (numbered from 0) is not a finite number; correct it.",
        WIDTH,
        x=torch.full((2, 1), torch.nan),
        edge_index=EDGES,
        y=1.0,
    ),
    "nan y.pt": pt(
        "row 1: y is empty", WIDTH, edge_index=EDGES, num_nodes=2, y=torch.nan
    ),
    "no nodes.pt": pt(
        "none of the 5 graphs has a node; give graphs with nodes.",
        WIDTH,
        edge_index=EDGES[:, :0],
        num_nodes=0,
        y=1.0,
    ),
}
