"""Damaged or hostile files end in one sentence, never in a traceback."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gnnak

GOOD = "\n".join(f"{'C' * (i + 1)},{i}.5" for i in range(12))
TEXTS = {
    "empty.csv": "",
    "blank.csv": "\n\n \n",
    "header only.csv": "smiles,y\n",
    "broken smiles.csv": "smiles,y\nC1CC,1\nC(,2\nQ,3\n",
    "nan targets.csv": "smiles,y\nC,nan\nCC,\nCCC,NA\n",
    "infinite target.csv": f"smiles,y\nC,inf\nCC,1e999\n{GOOD}",
    "words as numbers.csv": f"smiles,y\nC,one\n{GOOD}",
    "duplicated columns.csv": f"smiles,y,y\n{GOOD}",
    "missing cells.csv": f"smiles,y\nC\n{GOOD}",
    "surplus cells.csv": f"smiles,y\nC,1,2,3\n{GOOD}",
    "open quote.csv": f'smiles,y\n"C,1\n{GOOD}',
    "quotes inside.csv": f'smiles,y\nC"C"C,1\n{GOOD}',
    "unicode smiles.csv": f"smiles,y\nСО₂,1\n{GOOD}",  # noqa: RUF001, on purpose
    "no smiles column.csv": f"formula,y\n{GOOD}",
    "one row.csv": "smiles,y\nC,1\n",
    "constant class.csv": "smiles,y\nC,a\nCC,a\nCCC,a\n",
    "long smiles.csv": f"smiles,y\n{'C' * 20000},1\n{GOOD}",
    "deep smiles.csv": f"smiles,y\n{'C(' * 4000},1\n{GOOD}",
    "huge cell.csv": f"smiles,y\n{'C' * 200000},1\n{GOOD}",
    "broken.json": "{",
    "deep.json": "[" * 100000,
    "no graphs.json": "[]",
    "not graphs.jsonl": '{"a": 1}\n{"b": 2}\n',
    "missing node.json": '[{"nodes": [{"id": 1}], "edges": [{"source": 1}]}]',
    "broken.g6": "hello world\n",
    "huge.g6": "~~~~~~~~\n",
    "broken.edges": "a b c d e\n",
    "empty.edges": "",
    "unknown.xyz": "3\n\nC 0 0 0\n",
}


def hostile_bytes(folder: Path) -> dict[str, bytes]:
    """Return the content of binary files by name."""
    pickled = pickle.dumps({"smiles": ["C"], "y": [1]})
    np.savez(folder / "objects.npz", num_nodes=np.array([{}], dtype=object))
    outside = Data(edge_index=torch.tensor([[0], [9]]), num_nodes=2, y=1.0)
    torch.save([outside] * 5, folder / "bad.pt")
    with zipfile.ZipFile(folder / "zip.npz", "w") as archive:
        archive.writestr("num_nodes.npy", b"nonsense")
    return {
        "pickle in disguise.csv": pickled,
        "pickle in disguise.pt": pickled,
        "pickle in disguise.npz": pickled,
        "pickle in disguise.json": pickled,
        "latin.csv": "smiles,größe\nC,1\n".encode("latin-1"),
        "utf16.csv": "smiles,y\nC,1\n".encode("utf-16"),
        "zeros.csv": b"\0" * 1000,
        "zeros.g6": b"\0" * 1000,
        "objects.npz": (folder / "objects.npz").read_bytes(),
        "zip.npz": (folder / "zip.npz").read_bytes(),
        "bad.pt": (folder / "bad.pt").read_bytes(),
    }


@pytest.mark.slow
def test_train_on_hostile_data_is_one_line(place, fails):
    contents = {name: text.encode() for name, text in TEXTS.items()}
    contents |= hostile_bytes(place)
    for name, content in contents.items():
        (place / name).write_bytes(content)
        told = fails("train", name, "--accelerator", "cpu", "--epochs", "1")
        assert "Traceback" not in told, name
        assert len(told) < 700, name
    assert not Path("runs").exists()
    assert not Path("results").exists()


def test_predict_for_hostile_data_never_fails_for_single_rows(checkpoint, place):
    model = gnnak.load(checkpoint)
    for name in ("broken smiles", "unicode smiles", "long smiles", "deep smiles"):
        (place / "new.csv").write_text(TEXTS[f"{name}.csv"])
        found = model.predict(place / "new.csv")
        assert found.bad[0].number == 1, name
        assert np.isnan(found.values[0, 0]), name


def test_a_large_table_is_read_in_parts(checkpoint, place):
    (place / "new.csv").write_text("smiles\n" + "C\n" * 4500)
    found = gnnak.load(checkpoint).predict(place / "new.csv")
    assert found.values.shape == (4500, 1)
    assert np.isfinite(found.values).all()
