import json
import re
import sys
from dataclasses import fields

import pytest

from gnnak.cli import main
from gnnak.report.cells import load_table, table_names
from gnnak.report.tables import Counts
from gnnak.training.records.results import environment, read_records
from tests.cli.training import fake_training, run
from tests.report.hand_records import run_record, write_records


def told(*arguments: str, code: int = 0) -> str:
    return run("table", *arguments, code=code).stdout


@pytest.fixture
def training(monkeypatch):
    """Replace training by writing a record; one model always fails."""

    def result(config):
        fails = config.model.encodings == ("subgraph", "context")
        return None if fails else {"test": 0.125}

    return fake_training(monkeypatch, result)


def test_table_without_a_name_lists_all():
    lines = told().splitlines()
    assert [line.split()[0] for line in lines] == table_names()
    assert json.loads(told("--json"))[0]["cells"] == 117


@pytest.mark.parametrize("shape", ["text", "markdown", "latex", "csv"])
def test_table_shows_the_papers_numbers_where_nothing_was_run(shape, tmp_path):
    shown = told("egonet-size", "--format", shape, "--results", str(tmp_path))
    assert "0.120" in shown
    assert "OOM" in shown


def test_table_run_what_is_missing_and_goes_on_after_a_failure(tmp_path, training):
    arguments = ["encodings", "--run", "--only", "zinc", "--seeds", "2"]
    arguments += ["--set", "epochs=3", "--results", str(tmp_path)]
    result = run("table", *arguments, code=1)
    assert len(training) == 8
    assert {config.train.epochs for config in training} == {3}
    assert re.search(r"0\.125 ± 0\.000 ?\[a\] \(0\.080 ± 0\.001\)", result.stdout), (
        result.stdout
    )
    assert "[a] trained for 3 of 310 epochs; 2 of 3 seeds." in result.stdout
    again = told(*arguments, code=1)
    assert len(training) == 8
    assert again == result.stdout


def test_shortened_runs_are_trials_that_no_other_table_shows(tmp_path, training):
    arguments = ["encodings", "--run", "--only", "full / zinc", "--seeds", "1"]
    shown = told(*arguments, "--shorten", "5", "--results", str(tmp_path))
    [config] = training
    assert (config.train.epochs, config.train.step) == (62, 10)
    assert "trained for 62 of 310 epochs" in shown
    assert "▼" not in shown.partition("[a]")[0]
    assert (tmp_path / "trials").is_dir()
    assert "0.125" not in told("encodings", "--results", str(tmp_path))


def test_table_json_is_one_object(tmp_path, training):
    arguments = ["--run", "--only", "full / zinc", "--results", str(tmp_path)]
    shown = json.loads(told("encodings", *arguments, "--json"))
    assert shown["failed"] == []
    assert shown["cells"][0]["mean"] == 0.125
    assert shown["cells"][0]["runs"] == 3
    assert shown["cells"][1]["mean"] is None


def test_several_tables_share_runs_and_are_printed_in_order(tmp_path, training):
    arguments = ["--tables", "encodings, egonet-size", "--results", str(tmp_path)]
    shown = told(*arguments, "--run", "--only", "zinc", "--seeds", "1", code=1)
    captions = [load_table(name).caption for name in ("encodings", "egonet-size")]
    assert shown.index(captions[0]) < shown.index(captions[1])
    assert len(training) == len(set(training)) == 4 + 3


def test_tables_may_be_named_in_several_options(tmp_path):
    arguments = ["--results", str(tmp_path), "--json"]
    for repeated in (["tu", "encodings", "tu"], ["tu,encodings", " tu,"]):
        named = [part for each in repeated for part in ("--tables", each)]
        shown = json.loads(told(*named, *arguments))
        assert [each["name"] for each in shown] == ["tu", "encodings"]


def test_json_of_several_tables_is_a_list(tmp_path):
    arguments = ["--tables", "all", "--results", str(tmp_path), "--json"]
    names = [each["name"] for each in json.loads(told(*arguments))]
    assert names == table_names()


def test_dry_run_lists_runs_with_their_time_and_runs_none(tmp_path, training):
    zinc = load_table("encodings").rows[0][0]
    device = environment()["device"]
    write_records(tmp_path, [run_record(zinc.config, 0, device=device)])
    arguments = ["encodings", "--dry-run", "--only", "full / zinc"]
    shown = told(*arguments, "--results", str(tmp_path), "--accelerator", "cpu")
    assert "Full / ZINC-12K (MAE), seed 1" in shown
    assert "29 s" in shown  # 9 s in the record, and 20 s to start
    assert "2 runs, about 58 s, 1 at once." in shown
    assert training == []


@pytest.mark.heavy
def test_summary_counts_the_cells_that_agree(tmp_path):
    zinc = load_table("encodings").rows[0][0]
    write_records(tmp_path, [run_record(zinc.config, 0, test=0.0805)])
    shown = told("--summary", "--results", str(tmp_path))
    assert re.search("encodings +10 +1 +0 +1 +0 +0 +0 +0 +0", shown)
    assert "100.0% of the compared cells are within or better." in shown
    (legend,) = (line for line in shown.splitlines() if line.startswith("cells: "))
    assert all(f"{field.name}" in legend for field in fields(Counts))
    counts = json.loads(told("--summary", "--json", "--results", str(tmp_path)))
    assert {c["table"]: c["within"] for c in counts}["encodings"] == 1


@pytest.mark.slow
def test_run_trains_in_worker_processes_and_goes_on_after_a_failure(tmp_path):
    arguments = ["simulation", "--run", "--jobs", "2", "--only", "gin / sr25"]
    arguments += ["--seeds", "1", "--accelerator", "cpu", "--set", "train.epochs=1"]
    folders = ["--results", str(tmp_path / "r"), "--runs", str(tmp_path / "runs")]
    result = run("table", *arguments, *folders)
    assert "[2/2]" in result.stderr
    assert len(read_records(tmp_path / "r" / "runs.jsonl")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulatoin"], "did you mean 'simulation'?"),
        (["tu", "--format", "word"], "--format is 'word'; use one of: text"),
        (["tu", "--set", "train.epoch=3"], "did you mean train.epochs?"),
        (["--tables", "tu,tuu"], "did you mean 'tu'?"),
        (["tu", "--tables", "tu"], "give one table or --tables, not both."),
        (["tu", "--tables", ""], "give one table or --tables, not both."),
        (["--tables", " , "], "--tables names no table; give names, or all."),
        (["--tables", "all,tu"], "give --tables all, or --tables with names, not"),
        (["tu", "--run", "--jobs", "0"], "--jobs is 0; give a number of at least 1"),
        (["--run", "--only", "mutag"], "runs need a table; name one, or give"),
        (["--dry-run"], "runs need a table; name one, or give --tables all."),
        (["tu", "--run", "--only", "mutagg"], "'mutagg', which is in no cell's title"),
        (["--summary", "--format", "latex"], "--summary has no --format; give --json"),
        (["tu", "--dry-run", "--json"], "--dry-run prints text; leave out --json."),
        (["tu", "--only", "mutag"], "only runs use --only; add --run or --dry-run,"),
        (
            ["--summary", "--seeds", "1", "--minutes", "2"],
            "only runs use --minutes, --seeds;",
        ),
        (
            ["tu", "--accelerator", "gpu", "--jobs", "2"],
            "only runs use --accelerator, --jobs;",
        ),
        (["tu", "--minutes", "0"], "only runs use --minutes;"),
        (["--runs", "other"], "only runs use --runs;"),
        (["tu", "--results", "none"], "there is no file or folder none; check"),
        (
            ["--summary", "--results", __file__],
            "test_table.py, a file; give its folder",
        ),
        (["tu", "--run", "--results", __file__], "test_table.py, a file; give its"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, fails):
    assert message in fails("table", *arguments)


@pytest.mark.filterwarnings("default::gnnak.errors.DamagedFileWarning")
def test_table_warns_in_one_line_of_a_damaged_record_and_goes_on(
    tmp_path, monkeypatch, capsys
):
    config = next(c.plan for c in load_table("encodings").cells() if c.plan).config
    write_records(tmp_path, [run_record(config, test=0.125)])
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b'{"torn": ')
    arguments = ["gnnak", "table", "encodings", "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert not stop.value.code
    assert "0.125" in shown.out
    path = tmp_path / "runs.jsonl"
    told = f"warning: {path}, line 2 is not valid JSON; the line is skipped.\n"
    assert shown.err == told
