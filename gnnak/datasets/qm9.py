"""QM9: small molecules and their properties, from the package qm9pack."""

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from gnnak.datasets.assemble import build, read_or_make
from gnnak.datasets.cache import Progress, Request, no_progress
from gnnak.datasets.own.molecules import FEATURIZERS, molecule_chunks
from gnnak.datasets.record import Dataset, DatasetInfo, target_scaling
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.store import without_reverse_edges
from gnnak.optional import missing_package

TARGETS = {
    "mu": "Dipole_debye",
    "alpha": "Polarizability_bohr3",
    "homo": "HOMO_au",
    "lumo": "LUMO_au",
    "gap": "HOMO_LUMO_gap_au",
    "r2": "R2_bohr2",
    "zpve": "ZPVE_au",
    "u0": "InternalEnergy_0K_au",
    "u": "InternalEnergy_298K_au",
    "h": "Enthalphy_298K_au",
    "g": "GibbsFreeEnergy_298K_au",
    "cv": "Heatcapacity_Cv_cal_mol_K",
}
"""Maps the names of the targets of QM9 to columns of the files of qm9pack."""
MOLECULES = 130_831
FILES = ("qm9_part1.csv", "qm9_part2.csv", "qm9_part3.csv")


def read_qm9(progress: Progress = no_progress) -> GraphFile:
    """Read the files of qm9pack; `y`, [g, 12], has the columns `TARGETS`."""
    found = importlib.util.find_spec("qm9pack")  # an import would need pandas
    if found is None or found.origin is None:
        raise missing_package("the data set qm9 needs", "qm9pack")
    stores, done = [], 0
    for name in FILES:
        path = Path(found.origin).with_name("data") / name
        for convert in molecule_chunks(path, smiles="SMILES"):
            part = convert()
            if part.bad or not part.columns.keys() >= set(TARGETS.values()):
                told = f"{path} is not a file of qm9pack 1.0.3; install that version."
                raise FileFormatError(told)
            columns = [map(float, part.columns[key]) for key in TARGETS.values()]
            y = torch.tensor(list(zip(*columns, strict=True)), dtype=torch.double)
            once = without_reverse_edges(part.store)
            assert once is not None
            stores.append(replace(once, y=y))
            done += part.num_rows
            progress(done, MOLECULES)
    if done != MOLECULES:
        told = f"qm9pack has {done} molecules, not {MOLECULES}"
        raise FileFormatError(f"{told}; install qm9pack 1.0.3.")
    return GraphFile(GraphStore.concatenate(stores))


def load_qm9(info: DatasetInfo, request: Request) -> Dataset:
    """Load QM9 without geometry; 80 % of the molecules are for training, at random.

    The targets of the training molecules are normalised, as those of own data. Several
    targets are scored by `std-mae`, since their units differ.
    """
    make = partial(read_qm9, request.progress)
    file, source = read_or_make("qm9.npz", request, make, required=("x", "y"))
    y, count = file.store.y, len(file.store)
    if y is None or y.shape != (count, len(TARGETS)):
        raise FileFormatError(f"{source}: y must have 12 columns; give a file of qm9.")
    order = torch.from_numpy(
        np.random.default_rng([request.seed, 79]).permutation(count)
    )
    split = torch.zeros(count, dtype=torch.long)
    split[order[count * 8 // 10 :]] = 1
    split[order[count * 9 // 10 :]] = 2
    names = (request.target or "mu").split(",")
    y = y[:, [list(TARGETS).index(name) for name in names]]
    info = replace(info, scaling=target_scaling(y[split == 0]))
    if len(names) > 1:
        targets = tuple(names)
        info = replace(info, metric="std-mae", num_outputs=len(names), targets=targets)
    else:
        y = y[:, 0]
    file = GraphFile(replace(file.store, y=y), split)
    source = "qm9pack" if source == "downloaded" else source
    kind = FEATURIZERS["ogb"]
    return build(info, file, source, kind.nodes, kind.edges)
