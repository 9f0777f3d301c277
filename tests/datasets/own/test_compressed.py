"""Compressed files of own data are read like the uncompressed ones."""

import gzip
import json

import networkx as nx
import pytest
import torch

from gnnak.datasets.own import OwnData, Reading, as_rows, load_own
from gnnak.graphs.readers.files import TEXT_SUFFIXES

GRAPHS = [nx.path_graph(3), nx.cycle_graph(4)]
LINKS = [json.dumps(nx.node_link_data(graph, edges="edges")) for graph in GRAPHS]
EDGES = "a 0 1\na 1 2\nb 0 1\nb 1 2\nb 2 0\n"
GRAPH6 = b"".join(nx.to_graph6_bytes(graph, header=False) for graph in GRAPHS).decode()
TEXTS = {
    ".csv": "smiles,y\nCCO,1\nC(,2\n",
    ".tsv": "smiles, and more\ty\nCCO\t1\nCC\t2\n",
    ".smi": "CCO ethanol\nCC\n",
    ".g6": GRAPH6,
    ".graph6": GRAPH6,
    ".json": f"[{','.join(LINKS)}]",
    ".jsonl": "\n".join(LINKS),
    **dict.fromkeys((".edges", ".edgelist", ".txt"), EDGES),
}
"""A file of two graphs or molecules of each format."""


@pytest.mark.parametrize("suffix", sorted(TEXT_SUFFIXES))
def test_a_compressed_file_is_read_like_the_uncompressed_one(tmp_path, suffix):
    column = Reading(smiles="smiles, and more" if suffix == ".tsv" else None)
    plain, packed = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}.gz"
    plain.write_text(TEXTS[suffix])
    packed.write_bytes(gzip.compress(TEXTS[suffix].encode()))
    wanted, found = (as_rows(str(path), column) for path in (plain, packed))
    assert found.num_rows == wanted.num_rows == 2
    assert found.bad == wanted.bad
    assert found.columns == wanted.columns
    assert found.source == str(packed)
    assert torch.equal(found.store.edge_index, wanted.store.edge_index)
    assert torch.equal(found.store.num_nodes, wanted.store.num_nodes)


def test_a_folder_may_have_compressed_graph_files(tmp_path):
    for number, graph in enumerate(LINKS):
        (tmp_path / f"{number}.json.gz").write_bytes(gzip.compress(graph.encode()))
    assert as_rows(tmp_path).store.num_nodes.tolist() == [3, 4]


def test_labels_and_parts_of_a_split_may_be_compressed(tmp_path):
    def write(name, text):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        return str(tmp_path / name)

    smiles = ["C" * n for n in range(1, 7)]
    labels = write("labels.csv.gz", "y\n" + "\n".join(map(str, range(6))))
    found = load_own(OwnData(write("m.smi.gz", "\n".join(smiles)), labels=labels))
    assert found.dataset.store.y.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.dataset.info.name == "m"
    rows = [f"{text};{place},5" for place, text in enumerate(smiles)]
    train = write("train.csv.gz", "\n".join(["smiles;y", *rows[:4]]))
    other = write("other.csv.gz", "\n".join(["smiles;y", *rows[4:]]))
    found = load_own(OwnData(train, validation=other))
    assert found.dataset.store.y.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
