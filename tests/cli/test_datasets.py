import json

import pytest

from gnnak.cli import data_run
from gnnak.datasets import dataset_names, loaders
from gnnak.datasets.counting import counting_graphs
from tests.cli.training import run

pytestmark = pytest.mark.usefixtures("no_files")


def told(*arguments):
    return run("datasets", *arguments).stdout


def test_list_shows_every_data_set_and_where_it_is_from():
    rows = json.loads(told("list", "--json"))
    assert tuple(row["name"] for row in rows) == dataset_names()
    assert {row["from"] for row in rows} == {
        "built",
        "generated",
        "download",
        "package",
        "file only",
    }
    shown = told("list")
    assert "zinc" in shown
    assert "targets of counting: triangle" in shown


def test_describe_shows_our_figures_and_the_papers():
    (row,) = json.loads(told("describe", "sr25", "--json"))
    assert (row["graphs"], row["nodes"], row["edges"]) == ("15", 25.0, 300.0)
    assert (row["paper_nodes"], row["paper_edges"]) == ("25", "300")
    shown = told("describe", "sr25", "csl")
    assert "25.0 (25)" in shown
    assert "164.00" in shown


def test_describe_without_names_takes_local_data_sets(monkeypatch):
    few = {name: data_run.DATASETS[name] for name in ("exp", "csl", "zinc")}
    monkeypatch.setattr(data_run, "DATASETS", few)
    rows = json.loads(told("describe", "--json"))
    assert [row["name"] for row in rows] == ["csl"]


def test_prepare_says_what_was_written_where(tmp_path, monkeypatch):
    def few(seed, progress):
        return counting_graphs(seed, 50, progress)

    monkeypatch.setattr(loaders, "counting_graphs", few)
    prepared = json.loads(told("prepare", "counting", "--seed", "3", "--json"))
    (row,) = prepared["datasets"]
    assert prepared["cache"] == str(tmp_path / "cache")
    assert row["written"] == [str(tmp_path / "cache" / "counting-seed-3-v2.npz")]
    shown = told("prepare", "counting", "--seed", "3")
    assert "50 graphs, generated (seed 3); nothing new to cache" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["describe", "zin"], "there is no data set 'zin'; did you mean 'zinc'?"),
        (["describe", "exp"], "exp.npz was not found"),
        (["list", "--data-dir", "none"], "data_dir is 'none', which is not a folder"),
    ],
)
def test_a_wrong_input_is_one_line_and_exit_code_2(arguments, sentence, fails):
    assert sentence in fails("datasets", *arguments)
