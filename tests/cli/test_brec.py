import json

import pytest
from typer.testing import CliRunner

from gnnak.brec.records import BrecCount
from gnnak.brec.trial import TrialResult
from gnnak.cli.program import app
from gnnak.errors import GnnakError
from gnnak.graphs.named import four_regular_pair
from gnnak.wl.families import cycle_and_two

SAGE = "torch_geometric.nn:SAGEConv"
GOOD = TrialResult(1e9, 1e9, 1.0, 0.0, False, 1, 0.1)


@pytest.fixture
def trained(monkeypatch):
    """Replace the training of every pair by a fixed result."""
    monkeypatch.setattr("gnnak.brec.run.run_trial", lambda *_: GOOD)


@pytest.fixture
def two_pairs(monkeypatch):
    """Replace BREC by one group of two small pairs of graphs."""
    pairs = [four_regular_pair(), tuple(cycle_and_two(6))]
    monkeypatch.setattr("gnnak.brec.data.load_brec", lambda _: {"basic": pairs})


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
        (("--epochs", "-1"), "epochs is -1"),
        (("--num-hops", "-1"), "num_hops is -1"),
        (("--channels", "0"), "channels is 0"),
        (
            ("--subgraphs", "walks"),
            "subgraphs is 'walks'; use one of: deletion, egonets",
        ),
        (("--accelerator", "tpu"), "--accelerator is 'tpu'; use one of"),
        (("--accelerator", "gpu"), "there is no GPU here; use --accelerator cpu"),
        (("--seed", "-1"), "--seed is -1; give a whole number of at least 0"),
        (("--seed", "1", "--seed", str(2**63)), "give a whole number below 2^63"),
        (("--lr", "-0.1"), "lr is -0.1; give a finite number greater than 0"),
        (("--lr", "nan"), "lr is nan; give a finite number"),
        (("--model", "gim"), "gim"),
        (("--model", "khop-gin", "--subgraphs", "deletion"), "use egonets of"),
        (("--runs", __file__), "cannot be written"),
        (("--model", "ds-no_such_module:Conv"), "no_such_module cannot be imported"),
        (("--model", f"ds-{SAGE}", "--jobs", "2"), "use --jobs 1"),
    ],
)
def test_brec_answers_wrong_input_with_a_sentence_before_it_counts_a_ceiling(
    arguments, sentence, tmp_path, monkeypatch
):
    def never(*_):
        raise AssertionError("the data was read before all options were checked")

    monkeypatch.setattr("gnnak.brec.data.load_brec", never)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = run("--runs", tmp_path, "--results", tmp_path, *arguments)
    assert isinstance(result.exception, GnnakError)
    assert sentence in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        (("gin-ak+", "--subgraphs", "whole"), "gswl (num_hops=None)"),
        (("gin-ak", "--subgraphs", "whole"), "1-wl"),
        (("gin-ak", "--subgraphs", "deletion"), "pswl (num_hops=None)"),
        (("gin-ak+", "--subgraphs", "masked-egonets"), "gswl (num_hops=None)"),
        (("nested-gin", "--subgraphs", "deletion"), "swl (num_hops=None)"),
    ],
)
def test_brec_has_a_ceiling_on_all_kinds_of_subgraphs(
    arguments, label, two_pairs, tmp_path, trained
):
    result = run("--model", *arguments, "--runs", tmp_path, "--results", tmp_path)
    assert result.exit_code == 0, result.output
    assert f"Ceiling: exact count of {label}." in result.stdout
    record = json.loads((tmp_path / "brec.jsonl").read_text())
    assert record["ceiling"]["apart"] == {"basic": 0 if label == "1-wl" else 2}


@pytest.mark.parametrize("option", [("--subgraphs", "whole"), ("--num-hops", "2")])
def test_brec_refuses_options_of_subgraphs_for_a_network_without_any(
    option, two_pairs, tmp_path
):
    result = run("--model", "gin", *option, "--runs", tmp_path, "--results", tmp_path)
    assert result.exit_code != 0
    assert "gin has no rooted subgraphs" in str(result.exception or result.output)


def test_brec_names_counts_above_the_ceiling(two_pairs, tmp_path, trained):
    places = ("--runs", tmp_path, "--results", tmp_path)
    assert run("--model", "gin-ak+", *places).exit_code == 0
    run("--model", "gin", *places)
    fine, record = map(json.loads, (tmp_path / "brec.jsonl").read_text().splitlines())
    assert not [line for line in fine["notes"] if line.startswith("Above")]
    (above,) = (line for line in record["notes"] if line.startswith("Above"))
    assert "2 of basic (seed 100, as released), 2 of basic (seed 100, with" in above


def test_brec_shows_a_range_if_the_ceiling_lacks_pairs(
    two_pairs, tmp_path, trained, monkeypatch
):
    def first_only(groups, contenders, progress):
        (name,) = groups
        return [BrecCount("gswl", name, 2, 1, (), (1,), 0.1, "too large")]

    monkeypatch.setattr("gnnak.brec.records.run_brec", first_only)
    result = run("--runs", tmp_path, "--results", tmp_path)
    assert "1 to 2" in result.stdout
    record = json.loads((tmp_path / "brec.jsonl").read_text())
    assert record["ceiling"]["not_run_by_group"] == {"basic": 1}
    assert "The ceiling lacks 1 pairs" in " ".join(record["notes"])
    assert "Above the ceiling" not in result.stdout


def test_brec_says_that_there_is_no_ceiling(two_pairs, tmp_path, trained):
    places = ("--runs", tmp_path, "--results", tmp_path, "--model", "ppgn-ak+")
    result = run(*places, "--subgraphs", "whole")
    assert "bounds ppgn-ak+ on whole graphs." in result.stdout
    record = json.loads((tmp_path / "brec.jsonl").read_text())
    assert record["ceiling"] is None
    assert record["notes"][-1].startswith("No ceiling: no WL test is known")
    asked = run(*places, "--no-ceiling")
    assert "No ceiling" not in asked.stdout
