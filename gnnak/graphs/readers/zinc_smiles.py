"""Convert molecules to graphs with the atom and bond types of the data set ZINC.

The types are those of the 250 000 molecules of ZINC that Bresson and Laurent (2019)
published, from which Dwivedi et al. (2020) took ZINC-12K. The authors published the
list of atom types, not the program that assigned them. The rules below follow from the
names and were checked against the graphs of ZINC-12K: see `atom_name`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gnnak.graphs.readers.smiles import import_rdkit
from gnnak.graphs.reverse_edges import with_reverse_edges
from gnnak.graphs.store import GraphStore

ATOM_TYPES = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +"),
    *("N H2 +", "N +", "N -", "S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +"),
    *("P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +"),
)
"""The names of the 28 atom types, in the order of their numbers. ZINC-12K has atoms of
the first 21 types."""
OTHER_ATOM = len(ATOM_TYPES) - 1
"""The type of atoms without a type of their own. It is the last one, which no molecule
of ZINC-12K has: a table of 28 embeddings has no further row."""
BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE")
"""The names of the bond types 1, 2 and 3. Type 0, which no bond of ZINC-12K has, stands
for all other bonds."""


def zinc_from_molecules(molecules: Sequence[Any]) -> GraphStore:
    """Convert rdkit molecules to graphs like those of ZINC-12K.

    Each bond gives two edges, one in each direction. Node features [n, 1] are the atom
    types, edge features [e, 1] the bond types of the Kekulé form, in which aromatic
    rings have alternating single and double bonds. Hydrogen atoms are not nodes.

    Args:
        molecules: The molecules, as `parse_smiles` returns them; they are not changed.
    """
    chem = import_rdkit("rdkit.Chem")
    kekulized = [_kekulized(chem, molecule) for molecule in molecules]
    atoms = [number for molecule in kekulized for number in _atoms(chem, molecule)]
    bonds = [bond for molecule in kekulized for bond in molecule.GetBonds()]
    types = [str(bond.GetBondType()) for bond in bonds]
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    numbers = [BOND_TYPES.index(t) + 1 if t in BOND_TYPES else 0 for t in types]
    once = GraphStore(
        torch.tensor([m.GetNumAtoms() for m in kekulized], dtype=torch.long),
        torch.tensor([m.GetNumBonds() for m in kekulized], dtype=torch.long),
        torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous(),
        torch.tensor(atoms, dtype=torch.long).reshape(-1, 1),
        torch.tensor(numbers, dtype=torch.long).reshape(-1, 1),
    )
    return with_reverse_edges(once)


def atom_name(atom: Any, is_centre: bool) -> str:
    """Return the name of an atom in the notation of `ATOM_TYPES`.

    The name is the element, with the number of hydrogen atoms and the charge where a
    SMILES string needs brackets: for charged atoms (`N H1 +`), for stereocentres with a
    hydrogen atom (`C H1`, from `[C@H]`), and for phosphorus of unusual valence.

    These rules were checked with the graphs of ZINC-12K. Molecules built from 1500
    graphs by the names of their types are valid, and their SMILES strings give the same
    types again for all but one. Types 21 to 27 do not occur in ZINC-12K, so the rules
    for them, among others that for phosphorus, follow from the names alone.

    Args:
        atom: The rdkit atom.
        is_centre: Whether the atom is a tetrahedral stereocentre.
    """
    charge, hydrogens = atom.GetFormalCharge(), atom.GetTotalNumHs()
    name = str(atom.GetSymbol())
    unusual = name == "P" and atom.GetTotalValence() > 3
    stereo = name == "C" and is_centre
    if hydrogens and (charge or unusual or stereo):
        name += f" H{hydrogens}"
    signs = {0: "", 1: " +", -1: " -"}
    return name + signs.get(charge, f" {charge:+d}")


def _atoms(chem: Any, molecule: Any) -> list[int]:
    """Return the numbers of the atom types of a molecule."""
    found = chem.FindMolChiralCenters(
        molecule, includeUnassigned=True, useLegacyImplementation=True
    )
    centres = {index for index, _ in found}
    names = [atom_name(atom, atom.GetIdx() in centres) for atom in molecule.GetAtoms()]
    return [ATOM_TYPES.index(n) if n in ATOM_TYPES else OTHER_ATOM for n in names]


def _kekulized(chem: Any, molecule: Any) -> Any:
    """Return a copy with single and double bonds in rings, and without stereo marks.

    Whether an atom is a stereocentre then does not depend on the marks in the SMILES
    string, but on the four neighbours alone.
    """
    copy = chem.Mol(molecule)
    chem.RemoveStereochemistry(copy)
    try:
        chem.Kekulize(copy, clearAromaticFlags=True)
    except Exception:  # rdkit's errors for rings without a Kekulé form, as in c1cc*cc1
        return copy
    return copy
