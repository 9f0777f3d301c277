import json

import pytest
from typer.testing import CliRunner

from gnnak.cli.program import app


@pytest.mark.heavy
def test_report_writes_one_page(tmp_path):
    out = tmp_path / "page.html"
    arguments = ["report", "--results", str(tmp_path), "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Report: {out}\n"
    assert out.read_text("utf-8").startswith("<!DOCTYPE html>")
    shown = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert shown == {"page": str(out), "bytes": out.stat().st_size}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--results", "/no/such"], "there is no folder; give one with records"),
        (["--results", ".", "--out", "report.pdf"], "end it in .html"),
        (["--results", ".", "--out", "/dev/null/a.html"], "/dev/null"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, fails):
    assert message in fails("report", *arguments)
