import sys

import pytest

from gnnak.errors import GraphError, MissingPackageError
from gnnak.graphs import from_smiles
from gnnak.graphs.readers.smiles import ATOM_FEATURES, BOND_FEATURES


def test_from_smiles_without_rdkit_says_how_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    for name in ("rdkit.Chem", "rdkit.rdBase"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingPackageError, match=r"pip install rdkit"):
        from_smiles(["CCO"])


def test_from_smiles_one_string_is_not_a_list():
    with pytest.raises(GraphError, match="this is one SMILES string"):
        from_smiles("CCO")


def test_from_smiles_ethanol_and_a_salt_by_hand():
    store = from_smiles(["CCO", "[Na+].[Cl-]"]).check()
    assert store.num_nodes.tolist() == [3, 2]
    assert store.num_edges.tolist() == [4, 0]
    assert store.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert store.x.tolist() == [
        [5, 0, 4, 5, 3, 0, 2, 0, 0],
        [5, 0, 4, 5, 2, 0, 2, 0, 0],
        [7, 0, 2, 5, 1, 0, 2, 0, 0],
        [10, 0, 0, 6, 0, 0, 5, 0, 0],
        [16, 0, 0, 4, 0, 0, 2, 0, 0],
    ]
    assert store.edge_attr.tolist() == [[0, 0, 0]] * 4


def test_from_smiles_benzene_and_a_double_bond():
    store = from_smiles(["c1ccccc1", r"F/C=C/F", "*"])
    assert store.x[:6].tolist() == [[5, 0, 3, 5, 1, 0, 1, 1, 1]] * 6
    assert store.edge_attr[:12].tolist() == [[3, 0, 1]] * 12
    assert store.subset(1).edge_attr[2].tolist() == [1, 2, 0]
    assert store.subset(2).x[0, 0] == 118


def test_from_smiles_categories_are_in_range():
    smiles = ["C[C@H](N)C(=O)O", "[O-][N+](=O)c1ccccc1", "FS(F)(F)(F)(F)F", "[CH3]"]
    store = from_smiles(smiles).check()
    for table, features in ((store.x, ATOM_FEATURES), (store.edge_attr, BOND_FEATURES)):
        for column, (_, categories, _) in zip(table.t(), features, strict=True):
            assert column.min() >= 0
            assert column.max() < categories


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("C(", "line 2: 'C(' is not a molecule; fix the SMILES."),
        ("", "line 2: the SMILES string is empty"),
        ("xyz", "line 2: 'xyz' is not"),
        (None, "line 2: None is not a SMILES string"),
        ("C\0C", "line 2: "),
        ("C" * 20_000, "is longer than 10000 characters"),
    ],
    ids=ascii,
)
def test_from_smiles_names_the_line(line, message, capfd):
    with pytest.raises(GraphError) as caught:
        from_smiles(["CCO", line])
    assert message in str(caught.value)
    assert capfd.readouterr().err == ""


def test_from_smiles_nothing():
    store = from_smiles([]).check()
    assert (len(store), store.x.shape, store.edge_attr.shape) == (0, (0, 9), (0, 3))
