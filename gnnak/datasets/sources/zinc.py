"""Download ZINC-12K."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gnnak.datasets.sources.archive import fetch, open_member, opened_archive
from gnnak.datasets.sources.splits import SPLITS, concatenated
from gnnak.datasets.sources.tensors import read_tensors
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore

MOLECULES = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"
"""All 250 000 molecules, as pickles of tensors."""
INDEX = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/{commit}/"
    "data/molecules/{split}.index"
)
"""The positions of the 12 000 molecules; the content of a commit cannot change."""
COMMITS = {
    "train": "1068260d2d58cbe616d3d34de9a3c1fbf8332715",
    "val": "7125b402b4f386e1897549cebf76fcab32738e21",
    "test": "7125b402b4f386e1897549cebf76fcab32738e21",
}


def fetch_zinc(folder: Path) -> GraphFile:
    """Download ZINC-12K into `folder` and return its graphs."""
    with opened_archive(MOLECULES, folder, "molecules.zip") as archive:
        return concatenated(_part(archive, folder, split) for split in SPLITS)


def _part(archive: zipfile.ZipFile, folder: Path, split: str) -> GraphStore:
    """Return the graphs of one part: `train`, `val` or `test`."""
    url = INDEX.format(commit=COMMITS[split], split=split)
    index = fetch(url, folder, f"zinc-{split}.index")
    positions = index.read_text().replace(",", " ").split()
    name = f"molecules/{split}.pickle"
    with open_member(archive, name) as file:
        molecules = read_tensors(file)
    try:
        return graphs_of([molecules[int(position)] for position in positions])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(
            f"molecules.zip: {name} does not contain the molecules of ZINC."
        ) from error


def graphs_of(molecules: Sequence[dict[str, Any]]) -> GraphStore:
    """Convert molecules to graphs with atom types, bond types and targets.

    Args:
        molecules: For each molecule the pickled tensors `atom_type` [n], `bond_type`
            [n, n] (0 = no bond) and `logP_SA_cycle_normalized` [1].
    """
    atoms = [m["atom_type"].decode().long().view(-1, 1) for m in molecules]
    bonds = [m["bond_type"].decode().long() for m in molecules]
    edges = [matrix.nonzero().t() for matrix in bonds]
    targets = [m["logP_SA_cycle_normalized"].decode().float() for m in molecules]
    return GraphStore(
        torch.tensor([atom.size(0) for atom in atoms]),
        torch.tensor([ends.size(1) for ends in edges]),
        torch.cat(edges, dim=1),
        x=torch.cat(atoms),
        edge_attr=torch.cat(
            [
                matrix[ends[0], ends[1]]
                for matrix, ends in zip(bonds, edges, strict=True)
            ]
        )[:, None],
        y=torch.cat([target.view(1) for target in targets]),
    ).check()
