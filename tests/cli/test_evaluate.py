import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.cli.training import records, run, train


def evaluate(*arguments: str) -> str:
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


def test_evaluate_prints_an_undefined_score_as_null(best, monkeypatch):
    monkeypatch.setattr("gnnak.training.run.evaluate", lambda *_: float("nan"))
    assert json.loads(evaluate(str(best), "--json"))["score"] is None
    assert "test accuracy undefined (when" in evaluate(str(best))


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
