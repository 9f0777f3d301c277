import sys

import numpy as np
import pytest

from gnnak.cli import main
from tests.cli.training import SMALL, train

ZINC = {
    "num_nodes": np.full(8, 3),
    "num_edges": np.full(8, 2),
    "edge_index": np.tile([[0, 1], [1, 2]], 8),
    "x": np.tile([[4], [5], [6]], (8, 1)),
    "edge_attr": np.tile([[1], [2]], (8, 1)),
    "y": np.arange(8.0),
    "split": np.array([0, 0, 0, 0, 1, 1, 2, 2]),
}


def write(folder, **changes):
    """Write a small ZINC with some arrays replaced; None removes an array."""
    arrays = (ZINC | changes).items()
    written = {key: value for key, value in arrays if value is not None}
    np.savez(folder / "zinc12k.npz", **written)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["zink"], "there is no data set or file 'zink'; did you mean 'zinc'?"),
        (["none.yaml"], "there is no file or folder none.yaml"),
        (["triangles", "--model", "gim"], "unknown model 'gim'; did you mean 'gin'?"),
        (["triangles", "--model", "SSWL+"], "did you mean 'sswl+-gin'?"),
        (["triangles", "--model", "gin-s"], "did you mean 'gin-ak-s'?"),
        (["triangles", "--set", "train.epoch=3"], "did you mean train.epochs?"),
        (["triangles", "--set", "num_hop=3"], "did you mean model.subgraphs.num_hops?"),
        (
            ["triangles", "--num-hop", "3"],
            "(Possible options: --num-hops, --num-nodes)",
        ),
        (["triangles", "--set", "train.epochs"], "--set got 'train.epochs'; give key="),
        (
            ["triangles", "--set", "model.family.pairs=[mark]"],
            "pairs is ('mark',), but gin-ak+ ignores this option; leave it out, or use",
        ),
        (["triangles", "--set", "data.name=zink"], "did you mean 'zinc'?"),
        (["triangles", "--set", "train.loss=l1"], "triangles is a classification task"),
        (
            ["triangles", "--set", "train.seed=9223372036854775808"],
            "give a whole numbe",
        ),
        (["triangles", "--epochs", "ten"], "--epochs is 'ten'; give a whole number."),
        (["triangles", "--lr", "low"], "--lr is 'low'; give a number."),
        (["triangles", "--seed", "-1"], "--seed is -1; give a number of at least 0"),
        (["triangles", "--protocol", "seen"], "use one of: split, published, held-out"),
        (["csl", "--fold", "5"], "data.fold is 5; csl has 5 folds"),
        (["triangles", "--target", "star"], "has one target only, got 'star'; leave"),
        (["counting", "--target", "stars"], "did you mean 'star'?"),
        (
            ["triangles", "--devices", "0"],
            "--devices is 0; give a number of at least 1",
        ),
        (["triangles", "--accelerator", "tpu"], "is 'tpu'; use one of: auto, cpu, gpu"),
        (["triangles", "--devices", "101"], "and 101 processes; give at least two"),
        (["zinc", "--data-dir", "none"], "data_dir is 'none', which is not a folder"),
        (["triangles", "--set", "train.precision=16"], "needs a GPU; use bf16 or 32"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(
    arguments, sentence, place, fails, monkeypatch
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    experiment, *more = arguments
    assert sentence in fails("train", experiment, *SMALL, *more)
    assert not list(place.glob("runs/*"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("train: 3", "mine.yaml: train is 3; give its options"),
        ("train: {epoch: 3}", "mine.yaml: unknown option 'train.epoch'; did you mean"),
        ("\udcff", "mine.yaml: not YAML"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_code_2(text, sentence, place, fails):
    (place / "mine.yaml").write_text(text, errors="surrogateescape")
    assert sentence in fails("train", "mine.yaml")


def test_folders_that_are_files_are_one_line_and_exit_code_2(place, fails):
    (place / "file").write_text("")
    told = fails("train", "triangles", *SMALL, "--results", "file")
    assert "file/runs.jsonl cannot be written: Not a directory; " in told
    assert not (place / "runs").exists()
    told = fails("train", "triangles", *SMALL, "--runs", "file")
    assert "cannot be made: Not a directory; choose another one." in told
    assert not (place / "results").exists()
    (place / "results" / "runs.jsonl").mkdir(parents=True)
    told = fails("train", "triangles", *SMALL)
    assert "runs.jsonl cannot be written: Is a directory" in told


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_a_damaged_last_checkpoint_is_one_line_and_exit_code_2(content, place, fails):
    assert train("triangles").exit_code == 0
    best = next(place.glob("runs/*/best.ckpt"))
    last = best.with_name("last.ckpt")
    last.write_bytes(best.read_bytes() if content is None else content)
    told = fails("train", "triangles", *SMALL, "--resume")
    assert "is damaged or not a checkpoint" in told or "to start over" in told


WRONG_DATA = {
    "no edge_attr": ({"edge_attr": None}, "edge_attr is None, but zinc has Categ"),
    "no y": ({"y": None}, "has no targets y"),
    "no split": ({"split": None}, "zinc12k.npz of zinc has no split"),
    "num_nodes": ({"num_nodes": ZINC["num_nodes"] - 4}, "num_nodes[0] is -1"),
    "x": ({"x": ZINC["x"] + 28}, "zinc has Categorical(sizes=(28,))"),
    "real x": ({"x": ZINC["x"] + 0.5}, "x is Continuous(channels=1), but zinc has"),
    "wide x": ({"x": np.zeros((24, 2), int)}, "x is Categorical(sizes=(1, 1)), but"),
    "edge_attr": ({"edge_attr": ZINC["edge_attr"] + 4}, "zinc has Categorical(sizes=("),
    "y": ({"y": ZINC["y"] * np.nan}, "y has entries that are not finite numbers"),
    "wide y": ({"y": np.zeros((8, 2))}, "y of zinc has 2 columns; give 1"),
    "short y": ({"y": np.zeros(7)}, "y has 7 rows; give 8"),
    "no test": ({"split": ZINC["split"] // 2}, "zinc has no test graphs"),
    "text": ({"y": np.array("text")}, "y has dtype <U4; write numbers"),
}


@pytest.mark.parametrize("case", WRONG_DATA)
def test_wrong_data_is_one_line_and_exit_code_2(case, tmp_path, monkeypatch, fails):
    monkeypatch.chdir(tmp_path)
    changes, sentence = WRONG_DATA[case]
    write(tmp_path, **changes)
    assert sentence in fails("train", "zinc", *SMALL, "--data-dir", str(tmp_path))


def test_a_truncated_data_file_is_one_line_and_exit_code_2(
    tmp_path, monkeypatch, fails
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    assert train("zinc", "--data-dir", str(tmp_path)).exit_code == 0
    path = tmp_path / "zinc12k.npz"
    path.write_bytes(path.read_bytes()[:300])
    told = fails("train", "zinc", *SMALL, "--data-dir", str(tmp_path))
    assert "zinc12k.npz is not an npz file" in told


def test_too_many_copies_are_one_line_and_exit_code_2(place, monkeypatch, capsys):
    """The line comes after the progress bar, because batches are extracted late."""
    limit = ("--set", "model.subgraphs.copy_limit=9")
    monkeypatch.setattr(sys, "argv", ["gnnak", "train", "triangles", *SMALL, *limit])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    told = capsys.readouterr().err
    last = told.splitlines()[-1]
    assert last.startswith("error: the rooted subgraphs have at least")
    assert "more than copy_limit=9 allows; lower num_hops or the number of" in last
    assert "Traceback" not in told
