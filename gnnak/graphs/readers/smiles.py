"""Convert SMILES strings to graphs with the features of the Open Graph Benchmark."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from gnnak.errors import GraphError, kind_of
from gnnak.graphs.store import GraphStore, with_reverse_edges
from gnnak.optional import import_optional

CHIRALITY = (
    "CHI_UNSPECIFIED",
    "CHI_TETRAHEDRAL_CW",
    "CHI_TETRAHEDRAL_CCW",
    "CHI_OTHER",
)
HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")

Feature = tuple[str, int, Callable[[Any], int]]
"""A categorical feature: name, number of categories, and a function that returns the
category of an rdkit atom or bond."""


def _among(known: Sequence[object], value: object) -> int:
    """Return the position of `value` in `known`, or `len(known)` if it is not there."""
    return known.index(value) if value in known else len(known)


ATOM_FEATURES: tuple[Feature, ...] = (
    ("atomic number", 119, lambda a: _among(range(1, 119), a.GetAtomicNum())),
    ("chirality", 5, lambda a: _among(CHIRALITY, str(a.GetChiralTag()))),
    ("degree", 12, lambda a: _among(range(11), a.GetTotalDegree())),
    ("formal charge", 12, lambda a: _among(range(-5, 6), a.GetFormalCharge())),
    ("hydrogens", 10, lambda a: _among(range(9), a.GetTotalNumHs())),
    ("radical electrons", 6, lambda a: _among(range(5), a.GetNumRadicalElectrons())),
    ("hybridization", 6, lambda a: _among(HYBRIDIZATION, str(a.GetHybridization()))),
    ("aromatic", 2, lambda a: int(a.GetIsAromatic())),
    ("in a ring", 2, lambda a: int(a.IsInRing())),
)
"""The columns of `x`; in the first seven, the last category is "other"."""

BOND_FEATURES: tuple[Feature, ...] = (
    ("type", 5, lambda b: _among(BOND_TYPE, str(b.GetBondType()))),
    ("stereo", 7, lambda b: _among(STEREO, str(b.GetStereo()))),
    ("conjugated", 2, lambda b: int(b.GetIsConjugated())),
)
"""The columns of `edge_attr`; in the first two, the last category is "other"."""


MAX_LENGTH = 10_000
"""Largest number of characters of a SMILES string."""


def from_smiles(smiles: Iterable[str]) -> GraphStore:
    """Convert molecules to graphs: atoms become nodes, and bonds become edges.

    Each bond gives two edges, one in each direction. Hydrogen atoms are not nodes; a
    node feature of each atom counts them. Node features [n, 9] and edge features [e, 3]
    are categorical, with the columns `ATOM_FEATURES` and `BOND_FEATURES`. They are the
    same as in the Open Graph Benchmark (Hu et al. 2020), so models trained on its
    molecules can be applied to the result. Needs rdkit.

    Args:
        smiles: One SMILES string per molecule.

    Raises:
        GraphError: If a string is not a molecule; the message names its position.
    """
    if isinstance(smiles, str):
        raise GraphError("this is one SMILES string; give a list of them.")
    molecules = parse_smiles(smiles)
    for line, molecule in enumerate(molecules, start=1):
        if isinstance(molecule, str):
            raise GraphError(f"line {line}: {molecule}; fix the SMILES.")
    return from_molecules(molecules)


def parse_smiles(smiles: Iterable[object]) -> list[Any]:
    """Return the rdkit molecule of each string, or an error text if it is invalid."""
    chem = import_rdkit("rdkit.Chem")
    quiet = import_rdkit("rdkit.rdBase").BlockLogs()
    molecules = [_parse(chem, text) for text in smiles]
    del quiet
    return molecules


def from_molecules(molecules: Sequence[Any]) -> GraphStore:
    atoms = [atom for molecule in molecules for atom in molecule.GetAtoms()]
    bonds = [bond for molecule in molecules for bond in molecule.GetBonds()]
    return _store(molecules, _table(atoms, ATOM_FEATURES), _table(bonds, BOND_FEATURES))


def _store(molecules: Sequence[Any], x: Tensor, bond_attr: Tensor) -> GraphStore:
    bonds = [bond for molecule in molecules for bond in molecule.GetBonds()]
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    once = GraphStore(
        torch.tensor([m.GetNumAtoms() for m in molecules], dtype=torch.long),
        torch.tensor([m.GetNumBonds() for m in molecules], dtype=torch.long),
        torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous(),
        x,
        bond_attr,
    )
    return with_reverse_edges(once)


def import_rdkit(name: str) -> Any:
    return import_optional(name, "reading SMILES needs", "rdkit")


def _parse(chem: Any, text: object) -> Any:
    if not isinstance(text, str):
        return f"{kind_of(text)} is not a SMILES string"
    if not text:
        return "the SMILES string is empty"
    if len(text) > MAX_LENGTH:
        return f"{text[:20]!r}... is longer than {MAX_LENGTH} characters"
    molecule = None
    if text.partition(" ")[0].isascii():  # A name may follow.
        # Some versions of rdkit skip invisible characters, others refuse them.
        with suppress(Exception):  # rdkit raises errors of several types
            molecule = chem.MolFromSmiles(text)
    if molecule is None or not molecule.GetNumAtoms():
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        return f"{shown!r} is not a molecule"
    return molecule


def _table(items: list[Any], features: tuple[Feature, ...]) -> Tensor:
    rows = [[category(item) for _, _, category in features] for item in items]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, len(features))


ATOM_TYPES = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +"),
    *("N H2 +", "N +", "N -", "S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +"),
    *("P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +"),
)
"""The names of the 28 atom types; ZINC-12K has atoms of the first 21 types."""
OTHER_ATOM = len(ATOM_TYPES) - 1
"""Number of the last type, "P H1 +", which ZINC-12K does not have. Atoms whose type is
not in `ATOM_TYPES` get this number, too: the embedding table has only 28 rows."""
BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE")
"""The names of bond types 1 to 3. Type 0, for all other bonds, is not in ZINC-12K."""


def zinc_from_molecules(molecules: Sequence[Any]) -> GraphStore:
    """Convert rdkit molecules to graphs like ZINC-12K, with bonds in Kekulé form."""
    chem = import_rdkit("rdkit.Chem")
    kekulized = [_kekulized(chem, molecule) for molecule in molecules]
    atoms = [number for molecule in kekulized for number in _atoms(chem, molecule)]
    bonds = [bond for molecule in kekulized for bond in molecule.GetBonds()]
    types = [str(bond.GetBondType()) for bond in bonds]
    numbers = [BOND_TYPES.index(t) + 1 if t in BOND_TYPES else 0 for t in types]
    columns = (torch.tensor(each, dtype=torch.long) for each in (atoms, numbers))
    return _store(kekulized, *(column.reshape(-1, 1) for column in columns))


def atom_name(atom: Any, is_centre: bool) -> str:
    """Return an atom's name as in `ATOM_TYPES`, with hydrogens as SMILES needs them."""
    charge, hydrogens = atom.GetFormalCharge(), atom.GetTotalNumHs()
    name = str(atom.GetSymbol())
    unusual = name == "P" and atom.GetTotalValence() > 3
    stereo = name == "C" and is_centre
    if hydrogens and (charge or unusual or stereo):
        name += f" H{hydrogens}"
    signs = {0: "", 1: " +", -1: " -"}
    return name + signs.get(charge, f" {charge:+d}")


def _atoms(chem: Any, molecule: Any) -> list[int]:
    options = {"includeUnassigned": True, "useLegacyImplementation": True}
    centres = {index for index, _ in chem.FindMolChiralCenters(molecule, **options)}
    names = [atom_name(atom, atom.GetIdx() in centres) for atom in molecule.GetAtoms()]
    return [ATOM_TYPES.index(n) if n in ATOM_TYPES else OTHER_ATOM for n in names]


def _kekulized(chem: Any, molecule: Any) -> Any:
    # Without marks, atoms and bonds alone determine which atoms are stereocentres.
    copy = chem.Mol(molecule)
    chem.RemoveStereochemistry(copy)
    with suppress(Exception):  # of rings without a Kekulé form, as in c1cc*cc1
        chem.Kekulize(copy, clearAromaticFlags=True)
    return copy
