"""Download molecule data sets of the Open Graph Benchmark (OGB).

The archives contain compressed CSV files. They are read here, and not by the package
`ogb`, because that package downloads them over unencrypted connections.
"""

import gzip
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.sources.archive import open_member, opened_archive
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.reverse_edges import with_reverse_edges

URL = "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/{name}.zip"
NAMES = {"molhiv": "hiv", "molpcba": "pcba"}
"""Maps the names of data sets in gnnak to the names of their archives."""
MAX_TEXT = 2**31
"""Largest size of a CSV file, in bytes."""
EMPTY = re.compile(rb"(?:(?<=[,\n])|^)(?=[,\r\n]|$)")
"""The place of a missing number in a CSV file."""


def fetch_ogb(name: str, folder: Path) -> GraphFile:
    """Download a molecule data set of OGB, with its scaffold split.

    Args:
        name: Name of the data set in gnnak, `molhiv` or `molpcba`.
        folder: The folder of downloads.
    """
    title = NAMES[name]
    url = URL.format(name=title)
    with opened_archive(url, folder, f"ogbg-{title}.zip") as archive:

        def read(part: str, kind: Any = np.int64) -> Tensor:
            with open_member(archive, f"{title}/{part}.csv.gz") as member:
                return read_csv(gzip.GzipFile(fileobj=member).read(MAX_TEXT), kind)

        try:
            return _file(read)
        except (ValueError, IndexError, EOFError, gzip.BadGzipFile) as error:
            raise FileFormatError(
                f"{title}.zip is not a molecule data set of OGB: {error}."
            ) from error


def read_csv(content: bytes, kind: Any) -> Tensor:
    r"""Read a CSV file of numbers into a matrix; a missing number becomes NaN.

    >>> read_csv(b"1,,3\n,5,\n", np.float32)
    tensor([[1., nan, 3.],
            [nan, 5., nan]])
    """
    content = content.rstrip(b"\r\n")
    if kind is np.float32:
        content = EMPTY.sub(b"nan", content)
    lines = io.BytesIO(content)
    return torch.from_numpy(np.loadtxt(lines, kind, delimiter=",", ndmin=2))


def _file(read: Callable[..., Tensor]) -> GraphFile:
    """Build the graphs from the parts of an archive, given a function that reads one.

    The archive stores each undirected edge once.
    """
    y = read("raw/graph-label", np.float32)
    store = GraphStore(
        read("raw/num-node-list")[:, 0],
        read("raw/num-edge-list")[:, 0],
        read("raw/edge").t().contiguous(),
        x=read("raw/node-feat"),
        edge_attr=read("raw/edge-feat"),
        y=y,
    ).check()
    split = torch.full((len(store),), -1)
    for code, part in enumerate(("train", "valid", "test")):
        split[read(f"split/scaffold/{part}")[:, 0]] = code
    return GraphFile(with_reverse_edges(store), split).check()
