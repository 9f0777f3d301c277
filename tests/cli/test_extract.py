import json

import networkx as nx
import pytest
import yaml

from gnnak.cli import data_run
from gnnak.datasets import describe
from gnnak.graphs import from_networkx
from tests.cli.training import run

pytestmark = pytest.mark.usefixtures("no_files")


def extract(*arguments):
    return run("extract", *arguments).stdout


def test_extract_measures_egonets_of_all_graphs():
    told = json.loads(
        extract("sr25", "--num-hops", "1", "--batch-size", "15", "--json")
    )
    assert told["sampled"] == told["graphs"] == 15
    assert told["node_copies"] == {"mean": 325.0, "median": 325.0, "max": 325.0}
    assert told["batch_node_copies"] == 15 * 325
    edges = told["batch_edge_copies"]
    assert told["training_bytes"] == 4 * 2 * 144 * (15 * 15 * 325 + edges)


def test_extract_samples_large_sets_and_says_so():
    shown = extract("csl", "--sample", "10", "--num-hops", "2")
    assert "Measured on 10 of 150 graphs, at random." in shown
    assert "GiB" in shown


def test_extract_takes_walks_and_follows_the_seed():
    arguments = ("csl", "--walks", "--length", "4", "--sample", "20", "--json")
    first, again = (json.loads(extract(*arguments)) for _ in range(2))
    assert first == again
    assert first["subgraphs"].startswith("RandomWalks(length=4, repeats=5")
    assert first["node_copies"]["mean"] < 41 * 21


def test_extract_takes_own_data_and_says_what_is_left_out(tmp_path):
    table = tmp_path / "molecules.csv"
    table.write_text("structure;y\nCC;1\nCCC;2\nC(;3\n")
    arguments = ["--smiles", "structure", "--num-hops", "1", "--json"]
    result = run("extract", table, *arguments)
    told = json.loads(result.stdout)
    assert (told["dataset"], told["graphs"]) == ("molecules", 2)
    assert told["node_copies"] == {"mean": 5.5, "median": 4.0, "max": 7.0}
    assert "left out 1 of 3 rows, row 3: 'C(' is not a molecule" in result.stderr


def test_extract_starts_from_the_settings_of_train(tmp_path):
    table = tmp_path / "molecules.csv"
    table.write_text("smiles,y\nCC,1\nCCC,2\nCCCC,3\n")
    config = yaml.safe_load(run("train", table, "--show").stdout)
    told = json.loads(extract(table, "--json"))
    assert told["subgraphs"] == "EgoNets(num_hops=3)"
    assert told["batch_size"] == config["train"]["batch_size"]
    for name in ("num_layers", "channels"):
        assert told[name] == config["model"][name]
    sizes, names = ("--batch-size", "2", "--channels", "8"), ("batch_size", "channels")
    for option in ("--layers", "--num-layers"):
        told = json.loads(extract(table, *sizes, option, "5", "--json"))
        assert [told[name] for name in (*names, "num_layers")] == [2, 8, 5]


def test_extract_takes_the_subgraphs_of_a_data_set(monkeypatch):
    path = from_networkx([nx.path_graph(4)])
    monkeypatch.setattr(data_run, "find_graphs", lambda *_: ("computers", path))
    told = json.loads(extract("computers", "--json"))
    assert told["subgraphs"].startswith("PageRankNeighbors(size=16")


def test_extract_warns_if_memory_is_too_small(monkeypatch):
    monkeypatch.setattr(describe, "free_bytes", lambda _: 2**20)
    result = run("extract", "sr25", "--num-hops", "1")
    assert "warning: a training step on 15 graphs needs about" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["zin"], "there is no data set or file 'zin'; did you mean 'zinc'?"),
        (
            ["csl", "--num-hops", "-1"],
            "--num-hops is -1; give a number of at least 0",
        ),
        (["csl", "--length", "3"], "--length is for walks, not for egonets"),
        (["csl", "--walks", "--num-hops", "2"], "--num-hops is for egonets, not for"),
        (["csl", "--walks", "--pagerank"], "--walks and --pagerank exclude each other"),
        (["csl", "--max-neighbors", "0"], "--max-neighbors is 0; give a number"),
        (
            ["csl", "--pagerank", "--alpha", "2"],
            "alpha is 2.0; give a number with 0.01",
        ),
        (["csl", "--walks", "--repeats", "0"], "--repeats is 0"),
        (
            ["csl", "--copy-limit", "99"],
            "at least 205 node copies (a node or an edge counts once for every "
            "subgraph that it is in), more than copy_limit=99 allows; lower num_hops "
            "or the number of nodes per batch, or raise copy_limit.",
        ),
    ],
)
def test_a_wrong_input_is_one_line_and_exit_code_2(arguments, sentence, fails):
    assert sentence in fails("extract", *arguments)


def test_extract_takes_names_in_any_case():
    told = json.loads(extract("CSL", "--num-hops", "1", "--sample", "3", "--json"))
    assert told["dataset"] == "csl"
