import gzip
import json
import sys
from pathlib import Path

import networkx as nx
import pytest
from typer.testing import CliRunner

from gnnak.cli.program import app
from gnnak.graphs import from_networkx, write_graph6
from tests.cli.training import records
from tests.training.molecules import SMILES, carbons

FEW = ("--epochs", "1", "--channels", "8", "--layers", "1", "--accelerator", "cpu")


@pytest.fixture
def table(place):
    """Write a table of molecules into the current folder."""
    rows = zip(SMILES, carbons(SMILES), strict=True)
    lines = ["name,smiles,mass", *(f'"a, b",{text},{y}' for text, y in rows)]
    Path("molecules.csv").write_text("\n".join(lines))
    return place


def train(*arguments):
    return CliRunner().invoke(app, ["train", *arguments, *FEW])


def test_train_on_a_table_of_semicolons_and_decimal_commas(place, fails):
    rows = list(zip(SMILES, carbons(SMILES), strict=True))
    lines = ["smiles;mass", *(f"{text};{y}".replace(".", ",") for text, y in rows)]
    Path("molecules.csv").write_text("\r\n".join(lines), encoding="utf-8-sig")
    result = train("molecules.csv")
    assert result.exit_code == 0, result.output
    assert "36 molecules, regression of mass, metric mae" in result.stderr
    Path("mixed.csv").write_text("\n".join([*lines, "CO;1.5"]))
    told = fails("train", "mixed.csv", *FEW)
    assert "mixed.csv: mass is '1000,5' in row 1 and '1.5' in row 37; write all" in told


def test_train_on_a_compressed_table_then_predict_for_one(table):
    content = gzip.compress(Path("molecules.csv").read_bytes())
    Path("molecules.csv.gz").write_bytes(content)
    Path("molecules.csv").unlink()
    result = train("molecules.csv.gz", "--target", "mass")
    assert result.exit_code == 0, result.output
    (checkpoint,) = Path("runs").glob("molecules-gin-ak+-*/best.ckpt")
    assert f"gnnak predict {checkpoint} NEW.csv -o out.csv" in result.stderr
    words = ["predict", str(checkpoint), "molecules.csv.gz", "-o", "out.csv"]
    result = CliRunner().invoke(app, [*words, "--accelerator", "cpu"])
    assert result.exit_code == 0, result.output
    assert len(Path("out.csv").read_text().splitlines()) == 37


def test_train_on_a_table_then_predict_and_evaluate(table):
    result = train("molecules.csv", "--target", "mass", "--model", "GIN-AK+")
    assert result.exit_code == 0, result.output
    assert "36 molecules, regression of mass, metric mae" in result.stderr
    (checkpoint,) = Path("runs").glob("*/best.ckpt")
    assert f"gnnak predict {checkpoint} NEW.csv -o out.csv" in result.stderr
    (record,) = records(table, "runs")
    assert not Path("results").exists()
    assert record["config"]["model"]["channels"] == 8
    assert record["config"]["data"]["own"]["path"] == "molecules.csv"
    scored = CliRunner().invoke(app, ["evaluate", str(checkpoint), "--json"])
    told = json.loads(scored.stdout)
    assert told["score"] == pytest.approx(told["recorded"])


def test_resume_with_another_seed_begins_a_run_although_the_split_differs(table):
    train("molecules.csv", "--target", "mass")
    (folder,) = Path("runs").glob("molecules-*")
    (folder / "last.ckpt").touch()
    result = train("molecules.csv", "--target", "mass", "--resume", "--seed", "3")
    assert result.exit_code == 0, result.output
    told = f"the run in {folder} was stopped with train.seed=0 instead of 3\n"
    assert f"a new run begins: {told}" in result.stderr
    assert [record["seed"] for record in records(table, "runs")] == [0, 3]
    result = train(
        *("molecules.csv", "--target", "mass", "--resume", "--set", "data.seed=4")
    )
    assert "data.seed=0 instead of 4; give its options" in str(result.exception)


@pytest.mark.parametrize("task", [None, "regression"])
def test_train_says_once_which_option_makes_classes_of_whole_numbers(place, task):
    lines = [f"{'C' * count},{1 + count % 3}" for count in range(1, 13)]
    Path("molecules.csv").write_text("\n".join(["smiles,mass", *lines]))
    result = train("molecules.csv", *(("--task", task) if task else ()))
    assert result.exit_code == 0, result.output
    hint = (
        "  mass has small whole numbers; set --task classification "
        "(task='classification') if these are classes\n"
    )
    assert result.stderr.count(hint) == (task is None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("12 %", "mass is '12 %' in row 2, not a number; write numbers without units"),
        ("2024-01-05", "mass is '2024-01-05' in row 2, a date; write dates as numbers"),
    ],
)
def test_train_names_the_row_of_a_percentage_or_a_date(place, fails, value, message):
    rows = ["C", "CC", "CCC"]
    lines = [f"{text},{value}" for text in rows]
    Path("molecules.csv").write_text("\n".join(["smiles,mass", "C1,1", *lines]))
    assert message in fails("train", "molecules.csv", "--skip-bad")


def test_train_on_graph6_with_labels_and_folds(place):
    write_graph6("g.g6", from_networkx([nx.cycle_graph(n) for n in range(3, 15)]))
    Path("labels.csv").write_text("odd\n" + "\n".join(["yes", "no"] * 6))
    result = train("g.g6", "--targets", "labels.csv", "--folds", "3", "--metric", "f1")
    assert result.exit_code == 0, result.output
    assert [record["fold"] for record in records(place, "runs")] == [0, 1, 2]


def test_train_and_sweep_say_which_attributes_are_ignored(place, caplog):
    graphs = [nx.path_graph(size) for size in range(3, 15)]
    for graph in graphs:
        graph.graph["size"] = len(graph) / 2
        nx.set_edge_attributes(graph, 0.5, "bond length")
    links = [json.dumps(nx.node_link_data(graph, edges="edges")) for graph in graphs]
    Path("g.jsonl").write_text("\n".join(links))
    line = (
        "node features: none; edge features: none; ignored edge attributes: bond length"
        "; add numbers with --edge-attr 'bond length' (edge_attr=['bond length'])\n"
    )
    result = train("g.jsonl", "--target", "size")
    assert result.exit_code == 0, result.output
    assert result.stderr.count(f"  {line}") == 1
    result = train("g.jsonl", "--target", "size", "--edge-attr", "bond length")
    assert "  node features: none; edge features: bond length\n" in result.stderr
    assert not caplog.text
    words = ["sweep", "g.jsonl", "--target", "size", "--over", "train.epochs=1,2"]
    result = CliRunner().invoke(app, [*words, "--dry-run", "--accelerator", "cpu"])
    assert result.exit_code == 0, result.output
    assert caplog.text.count(line) == 1


def test_train_takes_the_radius_of_the_egonets(table):
    options = ("--target", "mass", "--set", "batch_size=8", "--num-hops", "1", "--json")
    result = train("molecules.csv", *options)
    assert result.exit_code == 0, result.output
    config = json.loads(result.stdout)["config"]
    assert config["model"]["subgraphs"]["num_hops"] == 1
    assert config["train"]["batch_size"] == 8


def test_train_graphs_takes_evenly_spaced_graphs_of_a_data_set(place):
    result = train("Triangles", "--graphs", "40", "--lr", "0.01", "--json")
    assert result.exit_code == 0, result.output
    config = json.loads(result.stdout)["config"]
    assert config["data"]["own"]["graphs"] == 40
    assert config["train"]["learning_rate"] == 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("molecules.csv",), "name the ones to predict|rows cannot be used|mass"),
        (("molecules.csv", "--target", "mas"), "did you mean 'mass'"),
        (
            ("molecules.csv", "--target", "name"),
            "is a, b in all 36 rows",
        ),
        (("molecules.csv", "--target", "mass", "--split", "half"), "split is 'half'"),
        (("molecules.csv", "--target", "mass", "--metric", "f1"), "does not fit"),
        (("nothing.csv", "--target", "mass"), "there is no file or folder nothing.csv"),
        (("molecules.csv", "--target", "smiles"), "the target smiles is the column of"),
        (("molecules.csv", "--target", "a", "--target", "a"), "a is named twice"),
        (
            ("molecules.csv", "--target", "name", "--split", "column:name"),
            "name is the column that splits the data",
        ),
        (("triangles", "--smiles", "x"), "only be set for your own data"),
        (("counting", "--target", "star", "--target", "tailed"), "one target per run"),
    ],
    ids=range(11),
)
def test_train_wrong_own_data_is_one_line(table, fails, arguments, message):
    if arguments == ("molecules.csv",):
        Path("molecules.csv").write_text("smiles,a,b\nC,1,2\n")
        message = "name the ones to predict with --target"
    assert message in fails("train", *arguments)
    assert not Path("runs").exists()


def test_train_with_a_base_gnn_of_the_user_in_the_current_folder(table, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    Path("own_layers_of_a_test.py").write_text(
        "from torch_geometric.nn import SAGEConv\nclass Own(SAGEConv): pass\n"
    )
    model = "own_layers_of_a_test:Own-ak+"
    result = train("molecules.csv", "--target", "mass", "--model", model)
    assert result.exit_code == 0, result.output
    (checkpoint,) = map(str, Path("runs").glob("*/best.ckpt"))
    given = ("predict", checkpoint, "molecules.csv")
    module = sys.modules.pop("own_layers_of_a_test")
    refused = CliRunner().invoke(app, given)
    assert "--import own_layers_of_a_test" in str(refused.exception)
    done = CliRunner().invoke(app, [*given, "--import", module.__name__])
    assert done.exit_code == 0, done.output
    del sys.modules["own_layers_of_a_test"]
