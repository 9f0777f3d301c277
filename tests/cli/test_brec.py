import json

import pytest
from typer.testing import CliRunner

from gnnak.cli.program import app
from gnnak.training.brec.trial import TrialResult

GOOD = TrialResult(1e9, 1e9, 1.0, 0.0, False, 1, 0.1)


@pytest.fixture
def trained(monkeypatch):
    """Replace the training of every pair by a fixed result."""
    monkeypatch.setattr("gnnak.training.brec.run.run_trial", lambda *_: GOOD)


def run(*arguments):
    return CliRunner().invoke(app, ["brec", *map(str, arguments)])


def test_brec_shows_counts_ceiling_and_published_counts(data_dir, tmp_path, trained):
    places = ("--runs", tmp_path / "runs", "--results", tmp_path, "--num-hops", 1)
    result = run(*places, "--group", "regular", "--data-dir", data_dir)
    assert result.exit_code == 0, result.output
    assert "ceiling" in result.stdout
    assert "0 singular covariances" in result.stdout
    assert "GNN-AK 222" in result.stdout
    record = json.loads((tmp_path / "brec.jsonl").read_text())
    assert record["seeds"]["100"]["regular"]["released"] == 50
    assert record["ceiling"]["apart"] == {"regular": 49}
    again = run(*places, "--group", "regular", "--no-ceiling", "--json")
    repeated = json.loads(again.stdout)
    assert repeated["ceiling"] is None
    assert (record["resumed_pairs"], repeated["resumed_pairs"]) == (0, 50)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--group", "cf"), "--group is 'cf'; use one of: basic"),
        (("--epochs", "0"), "epochs is 0"),
        (("--accelerator", "tpu"), "--accelerator is 'tpu'; use one of"),
        (("--model", "gim"), "gim"),
    ],
)
def test_brec_answers_wrong_input_with_a_sentence(
    arguments, sentence, data_dir, tmp_path
):
    result = run(*arguments, "--runs", tmp_path, "--results", tmp_path)
    assert sentence in str(result.exception)
