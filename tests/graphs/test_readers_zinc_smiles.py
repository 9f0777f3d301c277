import numpy as np
import pytest
import torch

from gnnak.datasets.cache import find_file
from gnnak.graphs import read_npz
from gnnak.graphs.readers.smiles import (
    ATOM_TYPES,
    OTHER_ATOM,
    parse_smiles,
    zinc_from_molecules,
)

chem = pytest.importorskip("rdkit.Chem")


def names(smiles):
    store = zinc_from_molecules(parse_smiles([smiles]))
    return [ATOM_TYPES[number] for number in store.x[:, 0]]


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CO", "C O"),
        ("c1cc[nH]c1", "C C C N C"),
        ("FC(Cl)(Br)I", "F C Cl Br I"),
        ("CS(=O)(=O)S", "C S O O S"),
        ("CPC", "C P C"),
    ],
)
def test_neutral_atoms_are_named_by_their_element(smiles, expected):
    assert names(smiles) == expected.split()


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("C[NH3+]", ["C", "N H3 +"]),
        ("C[NH2+]C", ["C", "N H2 +", "C"]),
        ("C[NH+](C)C", ["C", "N H1 +", "C", "C"]),
        ("C[N+](=O)[O-]", ["C", "N +", "O", "O -"]),
        ("C[N-]C", ["C", "N -", "C"]),
        ("C[S-]", ["C", "S -"]),
        ("C[PH](=O)C", ["C", "P H1", "O", "C"]),
        ("C[PH+](C)C", ["C", "P H1 +", "C", "C"]),
    ],
)
def test_charged_atoms_are_named_with_hydrogens_and_charge(smiles, expected):
    assert names(smiles) == expected


@pytest.mark.parametrize("smiles", ["C[C@H](N)O", "C[C@@H](N)O", "CC(N)O"])
def test_stereocentres_are_named_alike_with_and_without_marks(smiles):
    assert names(smiles) == ["C", "C H1", "N", "O"]


def test_carbons_that_are_no_stereocentres_are_plain():
    assert names("CC(C)O") == ["C", "C", "C", "O"]
    assert names("C[C@](N)(O)F") == ["C", "C", "N", "O", "F"]


@pytest.mark.parametrize("smiles", ["[Si]", "[Fe+2]", "*", "[O-2]", "[U]"])
def test_atoms_without_a_type_are_other(smiles):
    store = zinc_from_molecules(parse_smiles([smiles]))
    assert store.x.tolist() == [[OTHER_ATOM]]


def test_bonds_are_those_of_the_kekule_form():
    store = zinc_from_molecules(parse_smiles(["c1ccccc1C#N", "C=O", "C"]))
    assert store.num_edges.tolist() == [16, 2, 0]
    assert torch.bincount(store.edge_attr[:16, 0]).tolist() == [0, 8, 6, 2]
    assert store.edge_attr[16:, 0].tolist() == [2, 2]


def test_bonds_of_other_kinds_and_rings_without_kekule_form_have_type_0():
    store = zinc_from_molecules(parse_smiles(["N->[Fe]"]))
    assert store.edge_attr[:, 0].tolist() == [0, 0]
    assert zinc_from_molecules(parse_smiles(["c1cc*cc1"])).check()


def test_molecules_are_not_changed_and_none_is_an_empty_store():
    (molecule,) = parse_smiles(["C[C@H](N)c1ccccc1"])
    before = chem.MolToSmiles(molecule)
    zinc_from_molecules([molecule])
    assert chem.MolToSmiles(molecule) == before
    assert len(zinc_from_molecules([])) == 0


def molecule_of(graph):
    """Build the rdkit molecule of a graph of ZINC-12K, from the names of its atoms."""
    bonds = chem.BondType.SINGLE, chem.BondType.DOUBLE, chem.BondType.TRIPLE
    built = chem.RWMol()
    for (number,) in graph.x.tolist():
        symbol, *rest = ATOM_TYPES[number].split()
        atom = chem.Atom(symbol)
        atom.SetFormalCharge({"+": 1, "-": -1}.get(rest[-1] if rest else "", 0))
        atom.SetNumExplicitHs(int(rest[0][1:]) if rest and rest[0][0] == "H" else 0)
        atom.SetNoImplicit(bool(rest))
        built.AddAtom(atom)
    ends, kinds = graph.edge_index.t().tolist(), graph.edge_attr[:, 0].tolist()
    for (a, b), kind in zip(ends, kinds, strict=True):
        if a < b:
            built.AddBond(a, b, bonds[kind - 1])
    molecule = built.GetMol()
    chem.SanitizeMol(molecule)
    return molecule


def test_types_agree_with_the_graphs_of_zinc():
    """Rebuild molecules from graphs; their SMILES strings give the same types."""
    path = find_file("zinc12k.npz", None)
    if path is None:
        pytest.skip("needs the data set ZINC-12K")
    assert tuple(np.load(path)["atom_names"].tolist()) == ATOM_TYPES
    store = read_npz(path).store
    graphs = [store[torch.tensor([i])] for i in range(0, 12_000, 100)]
    smiles = [chem.MolToSmiles(molecule_of(graph)) for graph in graphs]
    again = zinc_from_molecules(parse_smiles(smiles))
    same = 0
    for i, graph in enumerate(graphs):
        found = again[torch.tensor([i])]
        same += all(
            sorted(getattr(found, key).flatten().tolist())
            == sorted(getattr(graph, key).flatten().tolist())
            for key in ("x", "edge_attr")
        )
    assert same >= len(graphs) - 1
