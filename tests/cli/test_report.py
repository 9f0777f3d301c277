import json
from pathlib import Path

import pytest

from gnnak.report import page
from tests.cli.training import run, train


@pytest.mark.heavy
def test_report_writes_one_page(tmp_path):
    out = tmp_path / "page.html"
    arguments = ["report", "--results", str(tmp_path), "--out", str(out)]
    result = run(*arguments)
    assert result.stdout == f"Report: {out}\n"
    assert out.read_text("utf-8").startswith("<!DOCTYPE html>")
    shown = json.loads(run(*arguments, "--json").stdout)
    assert shown == {"page": str(out), "bytes": out.stat().st_size}


def test_report_shows_runs_on_own_data_without_a_results_folder(place, fails):
    assert "there is no folder results; give one" in fails("report")
    Path("molecules.csv").write_text(
        "\n".join(["smiles,mass", *(f"{'C' * n},{n}.5" for n in range(1, 13))])
    )
    assert train("molecules.csv").exit_code == 0
    assert not Path("results").exists()
    run("report", "--out", "page.html")
    shown = Path("page.html").read_text("utf-8")
    assert "1 run of your own; 0 of" in shown
    assert "Graphs from molecules.csv." in shown


@pytest.mark.parametrize(
    ("arguments", "folder", "own_runs"),
    [
        ([], "results", "runs"),
        (["--results", "other"], "other", None),
        (["--runs", "mine"], "results", "mine"),
        (["--results", "other", "--runs", "runs"], "other", "runs"),
    ],
)
def test_report_reads_only_the_folders_that_are_given(
    arguments, folder, own_runs, place, monkeypatch
):
    def write_report(results, out, own):
        assert results == Path(folder)
        assert own == (Path(own_runs) if own_runs else None)

    monkeypatch.setattr(page, "write_report", write_report)
    Path(folder).mkdir()
    if "--runs" in arguments:
        Path(own_runs).mkdir(exist_ok=True)
        Path(own_runs, "runs.jsonl").touch()
    run("report", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--results", "/no/such"],
            "there is no folder /no/such; give one",
        ),
        (["--runs", "/no/such"], "/no/such has no records of runs on your own data"),
        (["--results", ".", "--out", "report.pdf"], "end it in .html"),
        (["--results", ".", "--out", "/dev/null/a.html"], "/dev/null"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, fails):
    assert message in fails("report", *arguments)
