"""Make the example files of this folder, one or more of each format.

Run `python examples/make.py`; it needs RDKit. The molecules are combinations of
fragments, their logP (partition between octanol and water) is computed by RDKit.
"""

import csv
import itertools
import json
import random
from pathlib import Path

import networkx as nx
import numpy as np
import torch
from rdkit import Chem
from rdkit.Chem.Crippen import MolLogP

FOLDER = Path(__file__).parent
HEADS = ("C", "CC", "CC(C)", "c1ccccc1", "C1CCCC1", "c1ccncc1", "OCC", "NCC", "ClCC")
LINKS = ("", "C", "CC", "C(=O)", "C(=O)N", "O", "S", "C=C", "C(C)(C)")
TAILS = ("C", "O", "N", "F", "Cl", "Br", "C#N", "C(=O)O", "c1ccco1", "C1CC1", "CI")
TRAINED, NEW = 500, 200
FEW = 30
"""Number of graphs in the files that take much space for each graph."""
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


def graphs() -> list[nx.Graph]:
    """Return pairs of a small-world and a random graph of equal size.

    Nodes have a degree. Edges have a length: the nodes are on a circle, in order.
    """
    found = []
    for seed in range(60):
        world = nx.watts_strogatz_graph(12, 4, 0.1, seed=seed)
        others = nx.gnm_random_graph(12, world.number_of_edges(), seed=seed)
        for graph, kind in ((world, "small-world"), (others, "random")):
            lengths = {(u, v): min(v - u, 12 - v + u) for u, v in graph.edges}
            nx.set_node_attributes(graph, dict(graph.degree), "degree")
            nx.set_edge_attributes(graph, lengths, "length")
            graph.graph = {"kind": kind}
            found.append(graph)
    return found


def write_text(name: str, lines: list[str]) -> None:
    """Write a text file with one string per line."""
    (FOLDER / name).write_text("\n".join(lines) + "\n", "utf-8")


def arrays(graph: nx.Graph) -> dict[str, np.ndarray]:
    """Return the degrees, edges (each once), lengths and label of a graph."""
    return {
        "x": np.array([[d] for _, d in graph.nodes(data="degree")]),
        "edge_index": np.array(graph.edges).T,
        "edge_attr": np.array([[d] for *_, d in graph.edges(data="length")]),
        "y": np.array([int(graph.graph["kind"] == "small-world")]),
    }


def write_graphs() -> None:
    """Write the same graphs in all formats."""
    every = graphs()
    lines = [nx.to_graph6_bytes(graph, header=False).decode() for graph in every]
    write_text("graphs.g6", [line.strip() for line in lines])
    write_table("labels.csv", ["kind"], [[graph.graph["kind"]] for graph in every])
    pairs = [(i, u, v) for i, graph in enumerate(every) for u, v in graph.edges]
    write_text("graphs.edges", [f"{i} {u} {v}" for i, u, v in pairs])
    links = [json.dumps(nx.node_link_data(g, edges="edges")) for g in every[:FEW]]
    write_text("graphs.jsonl", links)
    write_text("graphs.json", ["[" + ",\n".join(links) + "]"])
    parts = [arrays(graph) for graph in every]
    np.savez_compressed(
        FOLDER / "graphs.npz",
        num_nodes=[len(graph) for graph in every],
        num_edges=[graph.number_of_edges() for graph in every],
        **{name: np.concatenate([p[name] for p in parts]) for name in ("x", "y")},
        edge_index=np.concatenate([part["edge_index"] for part in parts], axis=1),
        edge_attr=np.concatenate([part["edge_attr"] for part in parts]),
        split=[0] * 96 + [1] * 12 + [2] * 12,
    )
    tensors = [{k: torch.from_numpy(v) for k, v in p.items()} for p in parts[:FEW]]
    for one in tensors:  # PyG has undirected edges twice
        edges, lengths = one["edge_index"], one["edge_attr"]
        one["edge_index"] = torch.cat([edges, edges.flip(0)], dim=1)
        one["edge_attr"] = torch.cat([lengths, lengths])
    torch.save(tensors, FOLDER / "graphs.pt")


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
    write_text("molecules.smi", smiles[:TRAINED])
    write_graphs()


if __name__ == "__main__":
    main()
