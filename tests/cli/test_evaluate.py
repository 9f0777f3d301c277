import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gnnak
from gnnak.graphs import GraphFile, from_networkx, write_graph6, write_npz
from tests.cli.training import records, run, train
from tests.training.molecules import SMALL, SMILES, carbons


def evaluate(*arguments: object) -> str:
    return run("evaluate", *arguments).stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Train in a folder, for tests that work in copies of the folder."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train("triangles").exit_code == 0
    return folder


@pytest.fixture
def best(trained, place) -> Path:
    shutil.copytree(trained, place, dirs_exist_ok=True)
    return next(place.glob("runs/*/best.ckpt"))


def rewrite(best: Path, **changes) -> str:
    """Write the checkpoint with some entries replaced; None removes an entry."""
    content = torch.load(best, weights_only=True) | changes
    missing = [key for key, value in changes.items() if value is None]
    kept = {key: value for key, value in content.items() if key not in missing}
    path = best.with_name("other.ckpt")
    torch.save(kept, path)
    return str(path)


def test_evaluate_prints_the_score_of_the_record(best, place):
    (record,) = records(place)
    for part in ("test", "validation"):
        told = json.loads(evaluate(str(best), "--part", part, "--json"))
        assert told["score"] == told["recorded"] == record["scores"][part]
        assert (told["part"], told["metric"]) == (part, "accuracy")
    score = f"{record['scores']['test']:.4f}"
    line = f"triangles gin-ak+ seed 0: test accuracy {score} (when it was trained: "
    assert evaluate(str(best)) == f"{line}{score})\n"


def test_evaluate_scores_the_training_graphs_too(best):
    told = json.loads(evaluate(str(best), "--part", "train", "--json"))
    assert told["recorded"] is None
    assert 0 <= told["score"] <= 1


def test_evaluate_refuses_other_data_unless_told(best, fails):
    other = rewrite(best, fingerprint="0" * 16)
    assert "trained on other data" in fails("evaluate", other)
    told = json.loads(evaluate(other, "--other-data", "--json"))
    assert told["score"] == told["recorded"]


def test_evaluate_scores_a_part_of_the_run_with_another_metric(best):
    told = json.loads(evaluate(str(best), "--metric", "F1", "--json"))
    assert (told["part"], told["metric"], told["recorded"]) == ("test", "f1", None)
    assert 0 <= told["score"] <= 1


SIZES = [n / 2 for n in range(3, 15)]
RINGS = [nx.Graph(nx.cycle_graph(n).edges, size=n / 2) for n in range(3, 15)]


@pytest.fixture(scope="session")
def rings(tmp_path_factory) -> Path:
    """Write rings with their sizes in every format, and train on the graph6 file."""
    folder = tmp_path_factory.mktemp("rings")
    store = from_networkx(RINGS)
    write_graph6(folder / "g.g6", store)
    write_npz(folder / "g.npz", GraphFile(replace(store, y=torch.tensor(SIZES))))
    lines = [json.dumps(nx.node_link_data(ring, edges="links")) for ring in RINGS]
    (folder / "g.jsonl").write_text("\n".join(lines))
    (folder / "g.json.gz").write_bytes(gzip.compress(f"[{', '.join(lines)}]".encode()))
    edges = [f"{i} {a} {b}" for i, ring in enumerate(RINGS) for a, b in ring.edges]
    (folder / "g.edges").write_text("\n".join(edges))
    (folder / "labels.csv").write_text("\n".join(["size", *map(str, SIZES)]))
    (folder / "parts").mkdir()
    data = [
        Data(edge_index=store[i].edge_index, num_nodes=len(ring), y=SIZES[i])
        for i, ring in enumerate(RINGS)
    ]
    torch.save([dict(each) for each in data], folder / "g.pt")
    for i, each in enumerate(data):
        torch.save(each, folder / "parts" / f"{i}.pt")
    labels = folder / "labels.csv"
    gnnak.train(folder / "g.g6", labels=labels, folder=folder / "run", **SMALL)
    return folder


@pytest.mark.parametrize(
    "data", ["g.g6", "g.npz", "g.jsonl", "g.json.gz", "g.edges", "g.pt", "parts"]
)
def test_evaluate_scores_graphs_of_every_format(data, rings):
    labels = ("--targets", rings / "labels.csv") if data in ("g.g6", "g.edges") else ()
    told = evaluate(rings / "run", rings / data, *labels, "--json")
    values = gnnak.load(rings / "run").predict(rings / "g.g6").values[:, 0]
    assert json.loads(told) == {
        "data": str(rings / data),
        "metric": "mae",
        "score": pytest.approx(np.abs(values - SIZES).mean(), rel=1e-5),
        "by_target": {},
        "num_rows": 12,
        "undefined": None,
        "bad": [],
        "part": None,
    }


MASS = carbons(SMILES)
TABLE = [f"{text},{mass}" for text, mass in zip(SMILES, MASS, strict=True)]


@pytest.mark.parametrize(
    ("file", "lines", "options"),
    [
        ("m.csv", ["smiles,mass", *TABLE], []),
        ("m.tsv", [each.replace(",", "\t") for each in ["mol,mass", *TABLE]], []),
        ("m.csv", ["text,m", *TABLE], ["--smiles", "text", "--target", "m"]),
        ("m.csv", ["smiles,mass", *TABLE, "C(,1", "C,"], ["--skip-bad"]),
        ("m.smi", SMILES, ["--targets", "labels.csv"]),
    ],
    ids=range(5),
)
def test_evaluate_scores_tables_of_molecules(checkpoint, place, file, lines, options):
    Path(file).write_text("\n".join(lines))
    Path("labels.csv").write_text("\n".join(["mass", *map(str, MASS)]))
    result = run("evaluate", checkpoint, file, "--metric", "rmse", *options)
    values = gnnak.load(checkpoint).predict(SMILES).values[:, 0]
    score = np.square(values - MASS).mean() ** 0.5
    assert result.stdout == f"{file}: 36 graphs, rmse {score:.4f}\n"
    left_out = "left out 2 rows, row 37: 'C(' is not a molecule\n"
    assert result.stderr == (left_out if "--skip-bad" in options else "")


def test_evaluate_prints_the_score_of_every_target(place):
    lines = [f"{each},{i % 2},{i % 3}" for i, each in enumerate(TABLE)]
    Path("m.csv").write_text("\n".join(["smiles,mass,odd,third", *lines]))
    targets = ("--target", "third", "--target", "mass")
    assert train("m.csv", *targets).exit_code == 0
    (folder,) = place.glob("runs/*/")
    told = json.loads(evaluate(folder, "m.csv", "--json"))
    assert list(told["by_target"]) == ["third", "mass"]
    assert told["score"] == pytest.approx(np.mean(list(told["by_target"].values())))
    for words in ((), ("m.csv",)):
        printed = evaluate(folder, *words)
        assert "third" in printed
        assert ("mass" in printed, "odd" in printed) == (True, False)


def test_evaluate_says_why_a_score_is_undefined(checkpoint, place):
    Path("m.csv").write_text("smiles,mass\nCC,1")
    told = evaluate(checkpoint, "m.csv", "--metric", "r2").splitlines()
    assert told[0] == "m.csv: 1 graph, r2 undefined"
    assert told[1].startswith("r2 is undefined: r2 is not defined for the targets of")
    told = json.loads(evaluate(checkpoint, "m.csv", "--metric", "r2", "--json"))
    assert told["score"] is None


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        ("smiles,mass\nC(,1\nC,1", [], "m.csv: 1 of 2 rows cannot be used (row 1: 'C("),
        ("smiles,mass\nC,\nC,1", [], "row 1: mass is empty); correct them, or leave"),
        (
            "smiles,mas\nC,1",
            [],
            "there is no column 'mass' in m.csv; did you mean 'mas'",
        ),
        (
            "smiles,a,b\nC,1,2",
            ["--target", "a", "--target", "b"],
            "has 2 targets (a, b)",
        ),
        (
            "smiles,mass\nC,1",
            ["--metric", "maee"],
            "no metric 'maee'; did you mean 'mae'?",
        ),
        (
            "smiles,mass\nC,1",
            ["--metric", "f1"],
            "which does not fit a regression task",
        ),
        (
            "smiles,mass\nC,1",
            ["--part", "test"],
            "--part is for the data of the run; le",
        ),
        (None, [], "there is no file or folder m.csv; check the path"),
        (None, ["../unknown"], "there is no file or folder ../unknown; check the path"),
        (None, ["--targets", "."], "--targets is for new data; leave it out, or name"),
        (
            None,
            ["--skip-bad"],
            "--skip-bad is for new data; leave it out, or name a fi",
        ),
    ],
    ids=range(11),
)
def test_evaluate_wrong_labelled_data_is_one_line(
    checkpoint, place, fails, table, arguments, message
):
    data = [] if table is None and arguments else ["m.csv"]
    if table is not None:
        Path("m.csv").write_text(table)
    assert message in fails("evaluate", checkpoint, *data, *arguments)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("a.ckpt b.ckpt m.csv", "evaluate takes one model; 2 were given"),
        ("a.ckpt b.ckpt", "evaluate takes one model; 2 were given"),
        ("a.ckpt m.csv m.csv", "at most one file with data; 3 paths were given"),
        ("m.csv a.ckpt", "m.csv is a file with data, not a model"),
    ],
)
def test_evaluate_takes_one_model_and_then_data(place, fails, paths, message):
    for path in paths.split():
        Path(path).touch()
    assert message in fails("evaluate", *paths.split())


def test_a_wrong_file_is_one_line_and_exit_code_2(place, fails):
    path = place / "x.ckpt"
    assert "there is no file" in fails("evaluate", str(path))
    assert "no config.json and no best.ckpt" in fails("evaluate", str(place))
    for content in (b"", b"weights\n", b"\x80\x02garbage"):
        path.write_bytes(content)
        assert "is damaged or not a checkpoint" in fails("evaluate", str(path))


def test_a_checkpoint_of_another_kind_is_one_line_and_exit_code_2(best, fails):
    lightning = best.with_name("lightning.ckpt")
    torch.save({"state_dict": {}, "loops": {}, "epoch": 1}, lightning)
    assert "give the best.ckpt of a run" in fails("evaluate", str(lightning))
    half = best.with_name("half.ckpt")
    half.write_bytes(best.read_bytes()[:-500])
    assert "is damaged or not a checkpoint" in fails("evaluate", str(half))
    info = torch.load(best, weights_only=True)["info"] | {"node_features": [5]}
    assert "data set that matches" in fails("evaluate", rewrite(best, info=info))
    assert "lacks 'weights'" in fails("evaluate", rewrite(best, weights=None))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--part", "tset"], "part is 'tset'; use one of: train, validation, test"),
        (["--accelerator", "tpu"], "accelerator is 'tpu'; use one of: auto, cpu, gpu"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(arguments, sentence, best, fails):
    assert sentence in fails("evaluate", str(best), *arguments)
