import json

import pytest
from torch_geometric.data import Data
from typer.testing import CliRunner

from gnnak.brec.ceiling import BREC_CONTENDERS, COSTLY
from gnnak.cli.brec import choose_contenders
from gnnak.cli.wl import app
from gnnak.errors import GraphError
from gnnak.graphs import from_pyg, write_graph6
from gnnak.graphs.named import four_regular_pair, rook, shrikhande
from gnnak.wl import TESTS


def write(path, *graphs):
    data = [Data(edge_index=ends, num_nodes=size) for ends, size in graphs]
    write_graph6(path, from_pyg(data))
    return str(path)


@pytest.fixture
def files(tmp_path):
    first, second = four_regular_pair()
    return write(tmp_path / "A.g6", first), write(tmp_path / "B.g6", second)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_compare_runs_every_test(files):
    result = run("compare", *files, "--json")
    told = json.loads(result.stdout)
    apart = {row["test"]: row["apart"] for row in told["tests"]}
    assert apart == dict.fromkeys(TESTS, 1) | {"1-wl": 0, "2-wl": 0}


def test_compare_takes_options_of_subgraph_wl_tests(files):
    told = ("compare", *files, "--test", "swl", "--json")
    unmarked = json.loads(run(*told, "--no-root-mark", "--readout", "sv").stdout)
    assert unmarked["tests"][0]["apart"] == 0
    egonets = json.loads(run(*told, "--num-hops", 1).stdout)
    assert egonets["tests"][0]["apart"] == 1


def test_compare_prints_a_table_with_the_classes(files):
    result = run("compare", *files, "--test", "subgraph-1-wl*", "--num-hops", 2)
    assert result.exit_code == 0
    assert "[0, 0]" in result.stdout


def test_compare_leaves_out_a_test_the_graphs_are_too_large_for(files):
    result = run("compare", *files, "--max-memory", "0.0001", "--json")
    rows = {row["test"]: row for row in json.loads(result.stdout)["tests"]}
    assert rows["1-wl"]["apart"] == 0
    assert rows["3-fwl"]["apart"] is None
    assert "3-fwl needs about" in rows["3-fwl"]["classes"]


def test_compare_reads_many_graphs_of_one_file(tmp_path):
    path = write(tmp_path / "srg.g6", rook(), shrikhande(), rook())
    told = json.loads(run("compare", path, "--test", "subgraph-1-wl", "--json").stdout)
    assert told["graphs"] == [f"{path}:0", f"{path}:1", f"{path}:2"]
    assert told["tests"][0]["classes"] == [0, 1, 0]


def test_explain_prints_the_round_and_plots(files, tmp_path):
    picture = tmp_path / "new" / "colours.svg"
    result = run("explain", *files, "--picture", picture)
    assert result.exit_code == 0
    assert "tells the graphs apart in round 1" in result.stdout
    assert picture.exists()


def test_explain_as_json(files):
    told = json.loads(run("explain", *files, "--test", "3-wl", "--json").stdout)
    assert told["distinguished"] is True
    assert told["round"] == 0
    assert len(told["node_colors"][0]) == 8


@pytest.mark.heavy
def test_lab_prints_a_table_and_json():
    result = run("lab", "--family", "srg16", "--test", "3-wl")
    assert result.exit_code == 0
    assert "srg16" in result.stdout
    assert "ppgn-ak, trained" in result.stdout
    short = ("lab", "--family", "srg16", "--test", "3-wl", "--no-networks", "--json")
    (row,) = json.loads(run(*short).stdout)
    assert (row["pairs"], row["apart"], row["rounds"]) == (1, 0, 0)


@pytest.mark.heavy
def test_lab_says_why_a_test_or_a_bound_was_not_run():
    told = ("--test", "3-fwl", "--max-memory", "0.0004")
    result = run("lab", "--family", "srg16", *told)
    assert result.exit_code == 0
    assert "not run" in result.stdout
    shown = " ".join(result.stdout.split())
    assert "srg16, 3-fwl: 3-fwl needs about" in shown
    assert "srg16, ppgn, bound: 2-fwl needs about" in shown


def test_lab_runs_the_named_networks_beside_their_bounds():
    told = ("lab", "--family", "cycles", "--test", "1-wl", "--network", "SSWL+-gin")
    rows = json.loads(run(*told, "--network", "gin", "--json").stdout)
    assert [(row["contender"], row["apart"], row["test"]) for row in rows] == [
        ("1-wl", 0, ""),
        ("sswl+-gin, bound", 10, "sswl (num_hops=None)"),
        ("sswl+-gin, random", 10, ""),
        ("sswl+-gin, trained", 10, ""),
        ("gin, bound", 0, "1-wl"),
        ("gin, random", 0, ""),
        ("gin, trained", 0, ""),
    ]


def test_lab_names_the_test_that_bounds_a_network(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    told = ("lab", "--family", "four-regular", "--test", "1-wl", "--num-hops", "2")
    result = run(*told, "--network", "nested-gin")
    assert "nested-gin, bound: swl (num_hops=2)" in result.stdout
    assert "nested-gin, random" in result.stdout
    assert "ppgn" not in result.stdout


def test_lab_does_not_call_graphs_too_large_that_are_too_hard(monkeypatch):
    def refuse(*_, **__):
        raise GraphError("two graphs were not decided; use fewer hops.")

    monkeypatch.setattr("gnnak.wl.lab.partition_with_rounds", refuse)
    result = run("lab", "--family", "srg16", "--test", "3-fwl", "--no-networks")
    assert "too large" not in result.stdout
    assert "two graphs were not decided" in result.stdout


@pytest.mark.heavy
def test_brec_counts_pairs_and_records_them(data_dir, tmp_path):
    told = ("brec", "--group", "basic", "--test", "swl", "--num-hops", 1, "--record")
    result = run(*told, "--results", tmp_path, "--data-dir", data_dir)
    assert result.exit_code == 0
    (line,) = (tmp_path / "wl_brec.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["contender"], record["apart"]) == ("swl (num_hops=1)", 59)
    assert len(record["groups"]["basic"]["missed"]) == 1
    assert "swl (num_hops=1)" in result.stdout


def test_brec_runs_the_chosen_tests_with_the_chosen_options():
    chosen = choose_contenders(["swl", "1-wl"], {"num_hops": 2})
    assert [c.label for c in chosen] == ["swl (num_hops=2)", "1-wl"]
    assert {c.test for c in choose_contenders(["pswl"], {})} == {"pswl"}
    chosen = choose_contenders([], {})
    assert chosen == [c for c in BREC_CONTENDERS if c.test not in COSTLY]
    assert [c.test for c in choose_contenders(["3-wl"], {})] == ["3-wl"]


WRONG = [
    ("compare {A} none.g6", "there is no file none.g6"),
    ("compare {garbage} {A}", "line 1"),
    ("compare {A}", "holds one graph; give two"),
    ("compare {empty} {A}", "holds no graph"),
    ("compare {A} {B} --test 1wl", "did you mean '1-wl'"),
    ("compare {A} {B} --test 1-wl --d2c", "--d2c means nothing to 1-wl"),
    ("compare {A} {B} --test swl --readout v", "readout is 'v'; use one of: vs, sv"),
    (
        "compare {A} {B} --test subgraph-1-wl --hash md5",
        "hash is 'md5'; use one of: exact",
    ),
    ("explain {A} {B} --num-hops -1", "num_hops is -1"),
    (
        "explain {A} {B} --test 3-fwl --max-memory 0.0001",
        "3-fwl needs about 0.00085 GiB for 2 graphs of up to 8 nodes",
    ),
    ("explain {A} {three}", "the files hold 4 graphs"),
    ("explain {A} {B} --picture a.txt", "end it in .png"),
    ("lab --family paley", "--family is 'paley'; use one of"),
    ("lab --test 9-wl", "there is no test '9-wl'"),
    ("brec --group cf", "--group is 'cf'; use one of: basic"),
    ("brec --test 1-wl --readout sv", "--readout means nothing to 1-wl"),
    ("lab --network gim", "unknown model 'gim'; did you mean"),
    ("lab --network gcn-ak+", "network is 'gcn-ak+'; use one of: gin, gin-ak"),
    ("lab --network khop-gin --num-hops 0", "use egonets of at least 1 hop"),
    (
        "lab --network gin --no-networks",
        "--network and --no-networks exclude each other; drop one.",
    ),
    ("lab --num-hops -1", "--num-hops is -1"),
]


@pytest.mark.parametrize(("command", "sentence"), WRONG)
def test_a_wrong_input_is_one_line_and_exit_code_2(
    command, sentence, files, tmp_path, fails
):
    first, second = files
    (tmp_path / "garbage.g6").write_bytes(b"\x00\xff not graph6\n")
    (tmp_path / "empty.g6").write_text("\n")
    three = write(tmp_path / "three.g6", rook(), rook(), rook())
    places = {
        "A": first,
        "B": second,
        "garbage": tmp_path / "garbage.g6",
        "empty": tmp_path / "empty.g6",
        "three": three,
    }
    arguments = [word.format(**places) for word in command.split()]
    assert sentence in fails("wl", *arguments)
