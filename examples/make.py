"""Make the example files of this folder: tables of molecules, graphs with labels.

Run `python examples/make.py`; it needs RDKit. The molecules are combinations of
fragments, their logP (partition between octanol and water) is computed by RDKit.
"""

import csv
import itertools
import random
from pathlib import Path

import networkx as nx
from rdkit import Chem
from rdkit.Chem.Crippen import MolLogP

FOLDER = Path(__file__).parent
HEADS = ("C", "CC", "CC(C)", "c1ccccc1", "C1CCCC1", "c1ccncc1", "OCC", "NCC", "ClCC")
LINKS = ("", "C", "CC", "C(=O)", "C(=O)N", "O", "S", "C=C", "C(C)(C)")
TAILS = ("C", "O", "N", "F", "Cl", "Br", "C#N", "C(=O)O", "c1ccco1", "C1CC1", "CI")
TRAINED, NEW = 500, 200
BROKEN = {20: "not a molecule", 77: "C1CC", 150: ""}
"""Rows of `new.csv` that are no molecules, by number."""


def molecules() -> list[str]:
    """Return distinct SMILES strings in a random, fixed order."""
    parts = itertools.product(HEADS, LINKS, TAILS)
    found = {Chem.CanonSmiles("".join(part)) for part in parts}
    shuffled = sorted(found)
    random.Random(0).shuffle(shuffled)
    return shuffled


def write_table(name: str, header: list[str], rows: list[list[str]]) -> None:
    """Write a CSV file."""
    with (FOLDER / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def main() -> None:
    """Write all files."""
    smiles = molecules()
    rows = [
        [one, f"{MolLogP(Chem.MolFromSmiles(one)):.3f}"] for one in smiles[:TRAINED]
    ]
    write_table("molecules.csv", ["smiles", "logp"], rows)
    new = smiles[TRAINED : TRAINED + NEW]
    named = [[f"m{i}", BROKEN.get(i, one)] for i, one in enumerate(new)]
    write_table("new.csv", ["name", "smiles"], named)
    lines, kinds = [], []
    for seed in range(60):
        world = nx.watts_strogatz_graph(12, 4, 0.1, seed=seed)
        others = nx.gnm_random_graph(12, world.number_of_edges(), seed=seed)
        for graph, kind in ((world, "small-world"), (others, "random")):
            lines.append(nx.to_graph6_bytes(graph, header=False).decode())
            kinds.append([kind])
    (FOLDER / "graphs.g6").write_text("".join(lines), "utf-8")
    write_table("labels.csv", ["kind"], kinds)


if __name__ == "__main__":
    main()
