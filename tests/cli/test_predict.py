import csv
import json
from pathlib import Path

import numpy as np
import pytest

import gnnak
from tests.cli.training import run

NEW = "id,smiles\n1,CCO\n2,C(\n3,\n4,[Se]CC\n"


@pytest.fixture
def new(tmp_path, monkeypatch):
    """Write a table of new molecules into the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text(NEW)
    return "new.csv"


def predict(*arguments):
    return run("predict", *arguments, "--accelerator", "cpu")


def test_predict_writes_one_row_per_input_row(checkpoint, new):
    result = predict(checkpoint, new, "-o", "out.csv")
    assert "out.csv: 4 rows; 2 have no prediction" in result.stderr
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"]
    assert [bool(row["predicted_mass"]) for row in rows] == [True, False, False, True]
    assert rows[1]["error"] == "'C(' is not a molecule"
    value = float(gnnak.load(checkpoint)("CCO").detach())
    assert float(rows[0]["predicted_mass"]) == pytest.approx(value, rel=1e-5)
    assert [path.name for path in Path().iterdir() if path.suffix == ".part"] == []


def test_predict_copies_decimal_commas_and_writes_decimal_points(checkpoint, new):
    """Cells of a table with semicolons are copied, in quotes if they have commas."""
    Path("new.csv").write_text("id;smiles;ph\n1,5;CCO;1,5\n2.5;C(;1.234,5\n")
    predict(checkpoint, new, "-o", "out.csv")
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [(row["id"], row["ph"]) for row in rows] == [
        ("1,5", "1,5"),
        ("2.5", "1.234,5"),
    ]
    value = float(gnnak.load(checkpoint)("CCO").detach())
    assert float(rows[0]["predicted_mass"]) == pytest.approx(value, rel=1e-5)
    assert rows[1]["error"] == "'C(' is not a molecule"


def test_predict_says_that_one_row_has_no_prediction(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("smiles\nCC\nC(\n")
    told = predict(checkpoint, checkpoint, "one.csv", "-o", "out.csv").stderr
    line = "out.csv: 2 rows, mean of 2 models; 1 has no prediction"
    assert line in " ".join(told.split())


def test_predict_fails_if_no_row_can_be_predicted(checkpoint, place, fails):
    Path("bad.csv").write_text("smiles\nC(\nQ\n")
    told = fails("predict", checkpoint, "bad.csv", "-o", "out.csv")
    assert "no row of bad.csv could be predicted; see the column error of out" in told
    assert Path("out.csv").read_text().splitlines()[1] == "C(,,'C(' is not a molecule"


def test_predict_prints_csv_or_writes_json_lines_and_arrays(checkpoint, new):
    printed = predict(checkpoint, new)
    predict(checkpoint, new, "-o", "out.csv")
    assert printed.stdout == Path("out.csv").read_text()
    told = predict(checkpoint, new, "-o", "out.jsonl", "--json").stdout
    assert json.loads(told) == {"rows": 4, "bad": 2, "output": "out.jsonl"}
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert lines[1]["predicted_mass"] is None
    predict(checkpoint, new, "-o", "out.npz", "--embeddings", "states.npz")
    with np.load("out.npz") as found:
        assert found["bad"].tolist() == [2, 3]
        assert found["columns"].tolist() == ["mass"]
        assert found["values"][0, 0] == pytest.approx(lines[0]["predicted_mass"])
    with np.load("states.npz") as found:
        assert found["embeddings"].shape == (4, 8)


def test_predict_with_an_ensemble_adds_deviations(checkpoint, new):
    header, first = predict(checkpoint, checkpoint, new).stdout.splitlines()[:2]
    assert header == "id,smiles,predicted_mass,predicted_mass_deviation,error"
    assert float(first.split(",")[3]) == 0


def test_predict_for_graphs_numbers_the_rows(checkpoint, new):
    Path("mols.smi").write_text("CCO ethanol\nC(\n")
    lines = predict(checkpoint, "mols.smi").stdout.splitlines()
    assert lines[0] == "row,predicted_mass,error"
    assert lines[2] == "2,,'C(' is not a molecule"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("CKPT",), "give a checkpoint and then the data"),
        (("CKPT", "none.csv"), "there is no file or folder none.csv"),
        (("new.csv", "CKPT"), "new.csv is a file with data, not a model; give the"),
        (("CKPT", "new.csv", "new.csv"), "give the models first and one file with"),
        (("out.ckpt", "new.csv"), "damaged or not a checkpoint"),
        (("CKPT", "new.csv", "-o", "out.xls"), "suffix of out.xls is '.xls'; use one"),
        (("CKPT", "new.csv", "-o", "no/out.csv"), "there is no folder no"),
        (("CKPT", "new.csv", "-o", "folder.csv"), "folder.csv is a folder; give the"),
        (("CKPT", "new.csv", "--embeddings", "e.csv"), "suffix of e.csv is '.csv'"),
        (("CKPT", "new.csv", "--embeddings", "no/e.npz"), "there is no folder no"),
        (
            ("CKPT", "new.csv", "-o", "e.npz", "--embeddings", "e.npz"),
            "predictions and embeddings would both be written to e.npz",
        ),
        (("CKPT", "new.csv", "--smiles", "smile"), "did you mean 'smiles'"),
        (("CKPT", "taken.csv", "-o", "out.csv"), "column predicted_mass, which the pr"),
        (("CKPT", "empty.csv"), "is empty"),
        (("CKPT", "header.csv"), "has a header but no rows"),
        (("CKPT", "graphs.g6"), "x has shape"),
    ],
    ids=range(16),
)
def test_predict_wrong_input_is_one_line(checkpoint, new, fails, arguments, message):
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("smiles\n")
    Path("graphs.g6").write_text("Bw\n")
    Path("taken.csv").write_text("smiles,predicted_mass\nCC,0.5\n")
    Path("out.ckpt").write_text(NEW)
    Path("folder.csv").mkdir()
    given = [checkpoint if word == "CKPT" else word for word in arguments]
    assert message in fails("predict", *given)
    assert not Path("out.csv").exists()


def test_predict_replaces_the_errors_of_earlier_predictions(checkpoint, place):
    Path("new.csv").write_text("smiles,error\nCC,old\nC(,\n")
    header, first, second = predict(checkpoint, "new.csv").stdout.splitlines()
    assert header == "smiles,error,predicted_mass"
    assert first.startswith("CC,,")
    assert second == "C(,'C(' is not a molecule,"


def test_predict_does_not_overwrite_the_file_that_it_reads(checkpoint, new, fails):
    told = fails("predict", checkpoint, "new.csv", "-o", "./new.csv")
    assert "is the file to predict for" in told
    assert Path("new.csv").read_text() == NEW


def test_predict_takes_pretrained_folders_alone_and_in_ensembles(checkpoint, new):
    gnnak.load(checkpoint).save_pretrained("net")
    assert predict("net", new).stdout == predict(checkpoint, new).stdout
    _, first = predict("net", checkpoint, new).stdout.splitlines()[:2]
    assert first.split(",")[3] == "0.0"


def test_predict_with_a_damaged_folder_is_one_line(checkpoint, new, fails):
    gnnak.load(checkpoint).save_pretrained("net")
    weights = Path("net/model.safetensors")
    weights.write_bytes(b"\x80\x04." + weights.read_bytes()[3:])
    assert "checksum is wrong; copy the folder again" in fails("predict", "net", new)
    weights.unlink()
    assert "there is no file net/model.safetensors" in fails("predict", "net", new)
    Path("net/config.json").unlink()
    assert "no config.json and no best.ckpt" in fails("predict", "net", new)
