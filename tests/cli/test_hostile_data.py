"""Damaged or hostile files end in one sentence, never in a traceback."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gnnak
from gnnak.cli.program import app
from tests.cli.hostile_files import KINDS, PICKLE
from tests.peak_memory import PROGRAM, peak_megabytes

ROOT = Path(__file__).parents[2]
MILLION = 10**6


@pytest.mark.heavy
def test_train_on_hostile_data_is_one_helpful_line(place, fails):
    for name, kind in KINDS.items():
        (place / name).write_bytes(kind.content)
        told = fails("train", name, "--accelerator", "cpu", "--epochs", "1")
        assert kind.train in told, name
        assert len(told) < 400, name
    assert not Path("runs").exists()
    assert not Path("results").exists()


@pytest.mark.slow
def test_predict_for_hostile_data_marks_rows_or_is_one_helpful_line(
    checkpoint, place, fails
):
    for name, kind in KINDS.items():
        (place / name).write_bytes(kind.content)
        arguments = ["predict", checkpoint, name, "-o", "out.csv"]
        arguments += ["--accelerator", "cpu"]
        if isinstance(kind.predict, str):
            assert kind.predict in fails(*arguments), name
            assert not Path("out.csv").exists(), name
            continue
        result = CliRunner().invoke(app, [*arguments, "--json"])
        told = json.loads(result.stdout)
        assert bool(result.exit_code) == (told["rows"] == told["bad"]), name
        assert told["bad"] == kind.predict, name
        with open("out.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert sum(bool(row["error"]) for row in rows) == kind.predict, name
        assert all(bool(row["error"]) != bool(row["predicted_mass"]) for row in rows), (
            name
        )
        Path("out.csv").unlink()


@pytest.mark.parametrize("content", [b"", PICKLE, b"\0" * 1000, b"PK\x03\x04 nonsense"])
def test_predict_with_a_hostile_checkpoint_is_one_line(content, place, fails):
    (place / "best.ckpt").write_bytes(content)
    (place / "new.csv").write_text("smiles\nC\n")
    told = fails("predict", "best.ckpt", "new.csv")
    assert "best.ckpt" in told
    assert len(told) < 400


def test_a_large_table_is_read_in_parts(checkpoint, place):
    (place / "new.csv").write_text("smiles\n" + "C\n" * 4500)
    found = gnnak.load(checkpoint).predict(place / "new.csv")
    assert found.values.shape == (4500, 1)
    assert np.isfinite(found.values).all()


@pytest.mark.slow
def test_a_million_rows_take_little_memory(checkpoint, place):
    """A process that has imported everything takes 550 MB."""
    (place / "good.csv").write_text("smiles,y\n" + "CCO,1.5\nCC,2.5\n" * (MILLION // 2))
    (place / "bad.csv").write_text("smiles,y\n" + "Q(,1\n" * MILLION)
    small = ["--accelerator", "cpu", "--epochs", "1", "--channels", "8"]
    few = run(place, "train", "good.csv", "--graphs", "100", *small)
    assert few.returncode == 0, few.stderr
    refused = run(place, "train", "bad.csv", *small)
    assert refused.returncode == 2
    assert "none of the 1000000 rows can be used (row 1: 'Q('" in refused.stderr
    assert len(refused.stderr) < 400
    predict = ["predict", checkpoint, "bad.csv", "-o", "out.csv", "--json"]
    marked = run(place, *predict, "--accelerator", "cpu")
    assert json.loads(marked.stdout)["bad"] == MILLION
    for done in (few, refused, marked):
        assert peak_megabytes(done.stderr) < 1200


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
