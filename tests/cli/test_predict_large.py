"""`gnnak predict` of large files: folders, Parquet, memory, kills and resumes."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnnak.datasets.own.molecules import molecule_chunks
from gnnak.training.prediction_files import TableWriter
from tests.cli.training import run
from tests.peak_memory import PROGRAM, peak_megabytes
from tests.training.molecules import SMILES

ROOT = Path(__file__).parents[2]
ROWS = [(i, "C(" if i in (1, 6) else SMILES[i]) for i in range(9)]
MANY = int(os.environ.get("GNNAK_PREDICT_ROWS", "0"))
"""Number of rows in the slow tests, such as a million; 0 means their defaults."""
OUTPUTS = ["out.csv", "out.tsv", "out.jsonl", "out.parquet"]


def predict(*arguments: str, code: int = 0):
    return run("predict", *arguments, "--accelerator", "cpu", code=code)


def text(rows=ROWS) -> str:
    return "id,smiles\n" + "".join(f"{number},{smiles}\n" for number, smiles in rows)


def write_parquet(path: str, rows=ROWS, **columns) -> None:
    numbers, smiles = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": numbers, "smiles": smiles} | columns), path)


@pytest.fixture
def new(place, monkeypatch):
    """Write `new.csv`; files are read two rows at a time."""
    monkeypatch.setattr(molecule_chunks, "__defaults__", (None, 2, "ogb", 0))
    Path("new.csv").write_text(text())
    return "new.csv"


def content(path: str | Path) -> object:
    """Return the bytes of a file, or of a Parquet file the table."""
    if str(path).endswith(".parquet"):
        return pq.read_table(path)
    return Path(path).read_bytes()


def stop_after(parts: int, monkeypatch, *arguments: str) -> None:
    """Stop the command after some parts, as if it were killed in the next one."""
    write, done = TableWriter.write, []

    def write_some(self, part):
        if parts:
            write(self, part)
            done.append(part)
        if len(done) == parts:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TableWriter, "write", write_some)
        predict(*arguments, code=130)
    if parts:
        with Path(f"{arguments[-1]}.part").open("ab") as file:
            file.write(b"half a part, without a note")


@pytest.mark.parametrize("output", OUTPUTS)
def test_predict_resumes_to_the_output_of_an_undisturbed_run(
    output, checkpoint, new, fails, monkeypatch
):
    whole = f"whole{Path(output).suffix}"
    predict(checkpoint, new, "-o", whole)
    told = predict(checkpoint, new, "-o", whole, "--resume").stderr
    assert f"{whole}: 9 rows; 2 have no prediction" in told
    for parts in (1, 3, 5):
        stop_after(parts, monkeypatch, checkpoint, new, "-o", output)
        assert not Path(output).exists()
        rows = min(2 * parts, 9)
        told = fails("predict", checkpoint, new, "-o", output)
        assert f"{output}.part has the first {rows} rows of predictions" in told
        assert "add --resume to continue" in told
        told = predict(checkpoint, new, "-o", output, "--resume").stderr
        assert f"{output}: 9 rows; 2 have no prediction" in told
        assert content(output) == content(whole)
        assert sorted(Path().glob("*.part*")) == []
        Path(output).unlink()


def test_predict_that_is_stopped_before_its_first_part_leaves_no_file(
    checkpoint, new, monkeypatch
):
    stop_after(0, monkeypatch, checkpoint, new, "-o", "out.csv")
    assert sorted(Path().glob("out*")) == []
    predict(checkpoint, new, "-o", "out.csv")


def test_predict_resumes_with_several_models_and_after_repeated_stops(
    checkpoint, new, monkeypatch
):
    given = [checkpoint, checkpoint, new, "-o"]
    predict(*given, "whole.csv")
    stop_after(2, monkeypatch, *given, "out.csv")
    stop_after(1, monkeypatch, *given[:-1], "--resume", "-o", "out.csv")
    assert json.loads(Path("out.csv.part.json").read_text())["done"]["rows"] == 6
    predict(*given, "out.csv", "--resume")
    assert content("out.csv") == content("whole.csv")


def test_predict_refuses_to_resume_with_other_data_models_or_options(
    checkpoint, new, fails, monkeypatch
):
    given = [checkpoint, new, "-o", "out.csv"]
    stop_after(1, monkeypatch, *given)
    resume = ["predict", *given, "--resume"]
    assert "with other --batch-size, so" in fails(*resume, "--batch-size", "2")
    assert "with other --smiles, so" in fails(*resume, "--smiles", "smiles")
    assert "with other models, so" in fails("predict", checkpoint, *resume[1:])
    Path(new).write_text(text(ROWS[::-1]))
    told = fails(*resume, "--batch-size", "3")
    assert "with other data and --batch-size, so --resume cannot continue it" in told
    Path(new).write_text(text())
    predict(*given, "--resume")


def test_predict_ignores_the_note_of_a_finished_output(checkpoint, new, monkeypatch):
    stop_after(3, monkeypatch, checkpoint, new, "-o", "out.csv")
    Path("out.csv.part").unlink()  # as if it had become out.csv
    predict(checkpoint, new, "-o", "out.csv")
    predict(checkpoint, new, "-o", "whole.csv")
    assert content("out.csv") == content("whole.csv")


def test_predict_refuses_an_output_that_another_process_writes(checkpoint, new, fails):
    with Path("out.csv.part").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        told = fails("predict", checkpoint, new, "-o", "out.csv", "--resume")
    assert "another command writes out.csv.part; wait until it ends." in told


def test_predict_keeps_the_types_of_parquet(checkpoint, new):
    kinds = pa.array(["a", "b", "a", None, *"abcde"]).dictionary_encode()
    weights = pa.array([None, *range(8)], pa.float32())
    write_parquet("new.parquet", weight=weights, kind=kinds)
    predict(checkpoint, "new.parquet", "-o", "out.parquet")
    out, given = pq.read_table("out.parquet"), pq.read_table("new.parquet")
    assert out.select(given.column_names) == given
    types = [str(out.schema.field(name).type) for name in out.column_names[4:]]
    assert dict(zip(out.column_names[4:], types, strict=True)) == {
        "predicted_mass": "double",
        "error": "string",
    }
    predict(checkpoint, new, "-o", "out.csv")
    predict(checkpoint, new, "-o", "text.parquet")
    same = pq.read_table("text.parquet")
    assert same["predicted_mass"] == out["predicted_mass"]
    assert same["id"].to_pylist() == [str(number) for number, _ in ROWS]


def test_predict_reads_a_folder_as_one_table_in_the_order_of_the_names(
    checkpoint, new, monkeypatch
):
    predict(checkpoint, new, "-o", "whole.csv")
    Path("parts").mkdir()
    Path("parts/part2.csv").write_text(text(ROWS[:4]))
    Path("parts/part10.tsv").write_text(text(ROWS[4:6]).replace(",", "\t"))
    Path("parts/part11.csv").write_text("smiles,id\n")
    rows = "".join(f"{smiles},{number}\n" for number, smiles in ROWS[6:])
    Path("parts/part12.csv").write_text(f"smiles,id\n{rows}")
    Path("parts/_SUCCESS").touch()
    predict(checkpoint, "parts", "-o", "out.csv")
    assert content("out.csv") == content("whole.csv")
    stop_after(3, monkeypatch, checkpoint, "parts", "-o", "again.csv")
    predict(checkpoint, "parts", "-o", "again.csv", "--resume")
    assert content("again.csv") == content("whole.csv")


def test_predict_reads_parquet_folders_whose_columns_are_partly_empty(checkpoint, new):
    Path("parts").mkdir()
    write_parquet("parts/1.parquet", ROWS[:3], note=pa.nulls(3))
    write_parquet("parts/2.parquet", ROWS[3:], note=list("abcdef"))
    predict(checkpoint, "parts", "-o", "out.parquet")
    out = pq.read_table("out.parquet")
    assert out["note"].to_pylist() == [None] * 3 + list("abcdef")
    assert out["error"].to_pylist().count(None) == 7


def test_predict_numbers_the_rows_of_smi_files_over_a_folder(checkpoint, new):
    Path("parts").mkdir()
    Path("parts/a.smi").write_text("CCO ethanol\n\nC(\nCC\n")
    Path("parts/b.smi").write_text("C(\tbroken\n")
    _, *lines = predict(checkpoint, "parts").stdout.splitlines()
    found = [line.split(",")[0] for line in lines if "not a molecule" in line]
    assert (found, len(lines)) == (["2", "4"], 4)


def test_predict_wrong_large_input_is_one_sentence(checkpoint, new, fails, monkeypatch):
    Path("bad.parquet").write_bytes(b"PAR1 nonsense")
    write_parquet("cut.parquet")
    cut = bytearray(Path("cut.parquet").read_bytes())
    cut[8:60] = bytes(52)
    Path("cut.parquet").write_bytes(cut)
    numbers = pa.table({"smiles": [1, 2]})
    pq.write_table(numbers, "numbers.parquet")
    pq.write_table(numbers.slice(0, 0), "empty.parquet")
    for name in ("none", "other", "types"):
        Path(name).mkdir()
        write_parquet(f"{name}/a.parquet")
    Path("none/b.csv").write_text("id,formula\n1,CO\n")
    Path("other/b.csv").write_text("id,smiles,y\n1,CO,1\n")
    write_parquet("types/b.parquet", [("x", "CC")])
    for data, told in {
        "bad.parquet": "bad.parquet cannot be read as Parquet (Parquet magic bytes not",
        "cut.parquet": "cut.parquet cannot be read as Parquet (",
        "numbers.parquet": "column smiles of numbers.parquet has numbers, such as 1",
        "empty.parquet": "empty.parquet has a header but no rows; add rows.",
        "none": "b.csv has no column named smiles in its header; name the column",
        "other": "other/a.parquet and other/b.csv differ in the columns y; give files",
        "types": "types cannot be read as Parquet (Unable to merge: Field id has inc",
    }.items():
        assert told in fails("predict", checkpoint, data, "-o", "out.csv"), data
    told = fails("predict", checkpoint, "other", "-o", "other/out.csv")
    assert "other/out.csv is in the folder to predict for; give a file in an" in told
    for wrong in (["-o", "out.npz"], [], ["-o", "out.csv", "--embeddings", "e.npz"]):
        told = fails("predict", checkpoint, new, "--resume", *wrong)
        assert "--resume needs an output that is written row by row" in told
    assert sorted(Path().glob("out*")) == []


@pytest.mark.parametrize(
    ("data", "output"), [("new.parquet", "out.csv"), ("new.csv", "out.parquet")]
)
def test_predict_without_pyarrow_says_how_to_install_it(
    data, output, checkpoint, new, fails, monkeypatch
):
    write_parquet("new.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    told = fails("predict", checkpoint, data, "-o", output)
    assert "reading and writing Parquet files needs pyarrow; install it with" in told
    assert "with its extra parquet." in told


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    return start_python(folder, "-m", "gnnak.cli", "predict", *arguments)


def start_python(folder: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen) -> None:
    _, told = process.communicate()
    assert process.returncode == 0, told


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict_that_is_killed_ten_times_loses_no_row(suffix, checkpoint, place):
    numbers = random.Random(0)
    count = MANY or 50_000
    rows = [(i, "C(" if i % 99 == 0 else numbers.choice(SMILES)) for i in range(count)]
    Path("new.csv").write_text(text(rows))
    given = [checkpoint, "new.csv", "--accelerator", "cpu", "-o"]
    began = time.monotonic()
    end(start(place, *given, f"whole{suffix}"))
    seconds = time.monotonic() - began
    written: list[int] = []
    for stop in [signal.SIGTERM] + [signal.SIGKILL] * 10:
        process = start(place, *given, f"out{suffix}", "--resume")
        note = Path(f"out{suffix}.part.json")
        before = note.stat().st_mtime_ns if note.exists() else 0
        while not (note.exists() and note.stat().st_mtime_ns > before):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        time.sleep(numbers.uniform(0, seconds / 20))
        process.send_signal(stop)
        _, told = process.communicate()
        if stop == signal.SIGTERM:
            assert told == "error: stopped by SIGTERM; go on with --resume.\n"
        written.append(json.loads(note.read_text())["done"]["rows"])
    assert sorted(set(written)) == written
    end(start(place, *given, f"out{suffix}", "--resume"))
    assert content(f"out{suffix}") == content(f"whole{suffix}")
    assert sorted(place.glob("*.part*")) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_predict_of_many_rows_takes_the_memory_of_few(checkpoint, place):
    """Ten thousand rows take 690 MB; many times as many within 20 % of it."""
    peaks = []
    for count in (10_000, MANY or 200_000):
        numbers = random.Random(0)
        rows = [(i, numbers.choice(SMILES)) for i in range(count)]
        Path("new.csv").write_text(text(rows))
        out = f"{count}.csv"
        given = ["predict", checkpoint, "new.csv", "--accelerator", "cpu", "-o", out]
        process = start_python(place, "-c", PROGRAM, *given)
        _, told = process.communicate()
        assert process.returncode == 0, told
        assert len(Path(out).read_text().splitlines()) == count + 1
        peaks.append(peak_megabytes(told))
    assert peaks[1] < 1.2 * peaks[0]
