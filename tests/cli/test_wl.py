import gzip
import json
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from gnnak.brec.records import BREC_CONTENDERS, COSTLY
from gnnak.cli import main
from gnnak.cli.brec import choose_contenders
from gnnak.cli.wl import app
from gnnak.datasets.own.read import READERS
from gnnak.errors import GraphError
from gnnak.graphs import from_pyg, write_graph6
from gnnak.graphs.named import four_regular_pair, rook, shrikhande
from gnnak.graphs.readers.files import format_suffix
from gnnak.wl import TESTS
from gnnak.wl.bounds import Contender


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
    shown = run("compare", path, path, "--test", "1-wl").stdout
    assert shown.startswith(f"{path}: 3 graphs\n{path}: 3 graphs\n")


RING = "0 1\n1 2\n2 3\n3 4\n4 5\n5 0\n"


@pytest.fixture
def rings(tmp_path, monkeypatch):
    """Write a hexagon in every format that `gnnak train` reads, and two triangles."""
    monkeypatch.chdir(tmp_path)
    ring = nx.cycle_graph(6)
    ends = torch.tensor(list(ring.edges)).T
    arcs = torch.cat([ends, ends.flip(0)], dim=1)
    for name in ("a.edges", "a.edgelist", "a.txt"):
        Path(name).write_text(RING)
    Path("a.txt.gz").write_bytes(gzip.compress(RING.encode()))
    Path("a.graph6").write_text("EhEG\n")
    Path("a.json").write_text(json.dumps(nx.node_link_data(ring, edges="edges")))
    Path("a.jsonl").write_text(Path("a.json").read_text() + "\n")
    np.savez("a.npz", num_nodes=[6], num_edges=[6], edge_index=ends.numpy())
    torch.save(Data(edge_index=arcs, num_nodes=6), "a.pt")
    torch.save([Data(edge_index=ends, num_nodes=6)], "once.pth")
    Path("folder").mkdir()
    Path("folder/a.edges").write_text(RING)
    Path("b.edges").write_text("0 1\n1 2\n2 0\n3 4\n4 5\n5 3\n")
    return ["folder", *sorted(str(path) for path in Path().glob("a.*"))]


def test_compare_reads_every_format_that_train_reads(rings):
    assert {format_suffix(Path(name)) for name in rings[1:]} | {".pth"} == {
        *READERS
    } - {".g6"}
    told = ("compare", *rings, "b.edges", "--json", "--test", "gin-ak+")
    shown = json.loads(run(*told).stdout)
    assert shown["graphs"] == [*rings, "b.edges"]
    assert shown["tests"][0]["classes"] == [0] * len(rings) + [1]
    result = run("explain", "a.npz", "b.edges", "--test", "gin-ak+")
    label = "gin-ak+: subgraph-1-wl* (d2c, centroid, context, num_hops=3)"
    assert f"{label} tells the graphs apart in round 1" in result.stdout


@pytest.mark.filterwarnings("default")
def test_compare_warns_of_edges_in_one_direction(rings, monkeypatch, capsys):
    told = ("wl", "compare", "a.edges", "once.pth", "--test", "1-wl", "--json")
    for more, apart in (((), 1), (("--undirected",), 0), (("--directed",), 1)):
        monkeypatch.setattr(sys, "argv", ["gnnak", *told, *more])
        with pytest.raises(SystemExit):
            main()
        shown = capsys.readouterr()
        assert json.loads(shown.out)["tests"][0]["apart"] == apart
        warning = "warning: every edge of graph 1 comes in one direction only, and"
        assert shown.err.strip().startswith(warning) is not bool(more)


def test_compare_takes_features_as_labels_unless_told(tmp_path):
    table = tmp_path / "m.csv"
    table.write_text("formula\nCCO\nCCN\nC(\n")
    told = ("compare", table, "--smiles", "formula", "--test", "1-wl", "--json")
    result = run(*told)
    assert "left out 1 of 3 rows, row 3: 'C(' is not a molecule" in result.stderr
    assert json.loads(result.stdout)["tests"][0]["classes"] == [0, 1]
    plain = json.loads(run(*told, "--no-labels").stdout)
    assert plain["tests"][0]["classes"] == [0, 0]


def test_compare_shows_the_test_that_bounds_a_network(files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    told = ("--test", "gin-ak", "--test", "swl", "--num-hops", 2)
    shown = run("compare", *files, *told).stdout
    assert "gin-ak: subgraph-1-wl* (centroid, num_hops=2)" in shown
    assert "swl: " not in shown
    (row,) = json.loads(run("compare", *files, *told[:2], "--json").stdout)["tests"]
    assert row["label"] == "gin-ak: subgraph-1-wl* (centroid, num_hops=3)"


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


def test_lab_takes_a_network_as_a_test():
    told = ("lab", "--family", "cycles", "--test", "gin-ak", "--no-networks", "--json")
    (row,) = json.loads(run(*told, "--num-hops", 2).stdout)
    assert row["contender"] == "gin-ak: subgraph-1-wl* (centroid, num_hops=2)"


def test_lab_names_the_test_that_bounds_a_network(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    told = ("lab", "--family", "four-regular", "--test", "1-wl", "--num-hops", "2")
    result = run(*told, "--network", "nested-gin")
    assert "nested-gin, bound: swl (num_hops=2)" in result.stdout
    assert "nested-gin, random (num_hops=2)" in result.stdout
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
    assert choose_contenders(["gin"], {}) == [Contender("1-wl")]
    labels = [c.label for c in choose_contenders(["gin-ak", "swl"], {"num_hops": 2})]
    network = "gin-ak: subgraph-1-wl* (centroid, num_hops=2)"
    assert labels == [network, "swl (num_hops=2)"]


WRONG = [
    ("compare {A} none.g6", "there is no file or folder none.g6"),
    ("compare {garbage} {A}", "the only row cannot be used (row 1: byte 1 is 0; "),
    ("compare {A}", "holds one graph; give two"),
    ("compare {empty} {A}", "empty.g6 has no graphs; add some"),
    ("compare {A} a.xlsx", "there is no file or folder a.xlsx"),
    ("compare {A} {B} --test gin-akk", "or a network such as gin-ak+ or sswl+-gin"),
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
    ("lab --network ds-ppgn", "no WL test is known that bounds 'ds-ppgn'; use one of"),
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
