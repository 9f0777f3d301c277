import json
import math
from dataclasses import replace

import pytest
import torch
from lightning.pytorch import Trainer

from gnnak.errors import CheckpointError, TrainingError
from gnnak.graphs import GraphStore
from gnnak.models import ModelOptions, build_model
from gnnak.nn.features import Categorical
from gnnak.training import callbacks as callbacks_module
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import load_checkpoint
from gnnak.training.records.results import REQUIRED
from gnnak.training.run import (
    evaluate,
    fill_unseen,
    last_checkpoint,
    run,
    run_title,
    warn_of_precision,
)
from tests.training.small import small_config, triangles


@pytest.mark.heavy
def test_run_learns_and_tells_all_about_it(tmp_path):
    config = small_config(train__epochs=40, train__learning_rate=0.02)
    record = run(config, triangles(48), tmp_path / "run")
    assert record["scores"]["test"] == 1.0
    assert record["epochs"] == 40
    assert len(record["curves"]["validation"]) == 40
    best = record["curves"]["validation"][record["best_epoch"]]
    assert best == record["scores"]["validation"] == max(record["curves"]["validation"])
    assert record["hash"] == config.hash()
    assert (record["fast"], record["captured"]) == (True, torch.cuda.is_available())
    assert change(RunConfig(), record["config"]) == config
    assert set(record["seconds"]) == {"data", "train", "evaluation", "total", "start"}
    assert record["peak_memory_mb"]["train"] > 0
    json.dumps(record, allow_nan=False)


def test_run_leaves_config_curves_and_a_checkpoint_that_scores_the_same(tmp_path):
    data = triangles()
    record = run(small_config(), data, tmp_path)
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert lines[0] == "epoch,train_loss,validation"
    assert len(lines) == 4
    checkpoint = load_checkpoint(tmp_path / "best.ckpt")
    assert checkpoint.scores == record["scores"]
    for part in ("validation", "test"):
        assert evaluate(checkpoint, data, part).score == record["scores"][part]


@pytest.mark.heavy
def test_run_depends_on_its_seed_only(tmp_path):
    data, options = triangles(), {"model__name": "gin-ak+-s", "model__dropout": 0.2}
    losses = [
        run(small_config(train__seed=seed, **options), data, tmp_path / name)["curves"]
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert losses[0] == losses[1] != losses[2]


def test_run_stops_early_without_improvement(tmp_path):
    config = small_config(model__name="gin", train__epochs=9, train__early_stop=2)
    record = run(config, triangles(), tmp_path)
    assert record["epochs"] == 3


def test_run_that_stopped_early_trains_no_more_if_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 0.0)
    config = small_config(model__name="gin", train__epochs=9, train__early_stop=2)
    first = run(config, triangles(), tmp_path)
    again = run(config, triangles(), tmp_path, resume=True)
    assert again["curves"] == first["curves"]
    assert again["scores"] == first["scores"]


def test_run_explains_a_loss_that_is_not_finite(tmp_path):
    config = small_config(train__learning_rate=1e30)
    with pytest.raises(TrainingError, match=r"lower train\.learning_rate"):
        run(config, triangles(), tmp_path)


def test_run_on_a_full_disk_leaves_no_broken_checkpoint(tmp_path, monkeypatch):
    def full(self, path, **_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Trainer, "save_checkpoint", full)
    with pytest.raises(TrainingError, match="No space left on device; free disk space"):
        run(small_config(), triangles(), tmp_path)
    assert [path.name for path in tmp_path.glob("*.ckpt*")] == []


def one_class_in_test():
    """A data set for roc-auc whose test graphs all have label 1."""
    data = triangles()
    assert data.store.y is not None
    assert data.split is not None
    y = data.store.y.float()[:, None]
    y[data.split == 2] = 1.0
    info = replace(data.info, task="multilabel", metric="roc-auc", num_outputs=1)
    return replace(data, info=info, store=replace(data.store, y=y))


def test_run_records_an_undefined_test_score_and_why(tmp_path):
    data = one_class_in_test()
    record = run(small_config(), data, tmp_path)
    assert record["scores"]["test"] is None
    assert record["undefined"] == {
        "test": "roc-auc needs graphs of both classes, but no label of the test graphs "
        "has both"
    }
    assert 0 <= record["scores"]["validation"] <= 1
    assert (
        set(REQUIRED["run"]) <= json.loads(json.dumps(record, allow_nan=False)).keys()
    )
    checkpoint = load_checkpoint(tmp_path / "best.ckpt")
    assert checkpoint.scores == record["scores"]
    found = evaluate(checkpoint, data)
    assert math.isnan(found.score)
    assert found.undefined == record["undefined"]["test"]
    found = evaluate(checkpoint, data, "validation")
    assert found.score == record["scores"]["validation"]


def test_run_needs_two_graphs(tmp_path):
    data = triangles().subset(torch.tensor([0, 2, 6]))
    with pytest.raises(TrainingError, match="has 1 graph to train on"):
        run(small_config(), data, tmp_path)


def test_run_scores_the_published_protocol_with_batch_statistics(tmp_path):
    data = triangles(4)
    published = small_config(data__protocol="published", train__epochs=1)
    assert run(published, data, tmp_path)["protocol"] == "published"


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed", "ignore:train.precision")
@pytest.mark.parametrize("precision", ["bf16", "64"])
def test_run_in_another_precision(precision, tmp_path):
    config = small_config(train__precision=precision, train__clip=1.0)
    record = run(config, triangles(), tmp_path)
    assert len(record["curves"]["validation"]) == 3


def test_run_logs_for_tensorboard(tmp_path):
    run(small_config(), triangles(), tmp_path, Machine(tensorboard=True))
    assert list(tmp_path.glob("tensorboard/events*"))


def test_run_of_pna_counts_the_degrees_of_the_training_graphs(tmp_path):
    record = run(
        small_config(model__name="pna", train__epochs=1), triangles(), tmp_path
    )
    assert load_checkpoint(tmp_path / "best.ckpt").degrees == (0, 0, 0, 0, 224)
    assert record["epochs"] == 1


def test_run_title_names_target_model_seed_and_fold():
    config = small_config(data__target="star", data__fold=3, train__seed=2)
    assert run_title(config) == "triangles star gin-ak+ seed 2 fold 3"


@pytest.mark.heavy
def test_run_with_recomputation_has_the_same_scores(tmp_path):
    config = small_config(train__precision="64", model__dropout=0.2)
    plain = run(config, triangles(), tmp_path / "plain")
    saving = Machine(recompute=True)
    less = run(config, triangles(), tmp_path / "less", saving)
    assert less["curves"] == plain["curves"]
    assert less["scores"] == plain["scores"]


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed", "ignore:train.precision")
@pytest.mark.parametrize(("precision", "close"), [("64", 1e-9), ("bf16", 0.02)])
def test_run_with_captured_steps_has_the_same_losses(
    precision, close, tmp_path, monkeypatch
):
    config = small_config(
        train__precision=precision,
        train__clip=0.1,
        train__step=1,
        model__name="gin-ak+-s",
    )
    plain = run(config, triangles(), tmp_path / "plain")
    monkeypatch.setattr(Machine, "captures", lambda *_: True)
    captured = run(config, triangles(), tmp_path / "captured")
    losses = [record["curves"]["train_loss"] for record in (captured, plain)]
    assert losses[0] == pytest.approx(losses[1], abs=close)
    steps = [
        torch.load(tmp_path / name / "last.ckpt", weights_only=True)["global_step"]
        for name in ("plain", "captured")
    ]
    assert steps[0] == steps[1] > 0


@pytest.mark.heavy
@pytest.mark.parametrize("captured", [(False, True), (True, False), (True, True)])
def test_run_can_be_resumed_captured_or_not(captured, tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 0.0)
    options = {"train__precision": "64", "train__epochs": 4}
    whole = run(small_config(**options), triangles(), tmp_path / "whole")

    def stop(self, trainer):
        trainer.should_stop |= self.epochs == 2

    with monkeypatch.context() as patched:
        patched.setattr(Machine, "captures", lambda *_: captured[0])
        patched.setattr(callbacks_module.RunHistory, "_stop_early", stop)
        part = run(small_config(**options), triangles(), tmp_path / "part")
        assert part["epochs"] == 2
    monkeypatch.setattr(Machine, "captures", lambda *_: captured[1])
    rest = run(small_config(**options), triangles(), tmp_path / "part", resume=True)
    losses = [record["curves"]["train_loss"] for record in (rest, whole)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)
    assert len(losses[0]) == 4


def test_fill_unseen_sets_the_mean_of_the_training_rows():
    options = ModelOptions(num_layers=2, channels=4)
    network = build_model("gin-ak+", Categorical((3, 2)), Categorical((3,)), 1, options)
    before = network.encoder.tables.weight.detach().clone()
    store = GraphStore(
        torch.tensor([3, 1]),
        torch.tensor([1, 0]),
        torch.tensor([[0], [1]]),
        torch.tensor([[0, 1], [0, 1], [1, 1], [2, 0]]),
        torch.tensor([[1]]),
    )
    fill_unseen(network, store.subset(torch.tensor([0])))
    after = network.encoder.tables.weight.detach()
    mean = (2 * before[0] + before[1]) / 3
    assert torch.equal(after[:2], before[:2])
    torch.testing.assert_close(after[2], mean)
    torch.testing.assert_close(after[3], before[4])
    for layer in network.layers:
        table = layer.kernels[0].edge_encoder.tables.weight
        assert torch.equal(table[0], table[1])
        assert torch.equal(table[2], table[1])


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    """The run_folder of a run with `best.ckpt` and `last.ckpt`."""
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 0.0)
    run(small_config(train__epochs=1), triangles(4), tmp_path)
    return tmp_path


def test_last_checkpoint_refuses_other_data(run_folder):
    data = triangles(4)
    assert data.store.y is not None
    shifted = replace(data, store=replace(data.store, y=1 - data.store.y))
    with pytest.raises(CheckpointError, match=r"last\.ckpt was written on other data"):
        run(small_config(train__epochs=1), shifted, run_folder, resume=True)
    run(small_config(train__epochs=1), data, run_folder, resume=True)


def test_run_refuses_to_resume_with_other_options_in_its_folder(run_folder):
    (other, data), moved = (small_config(train__epochs=2), triangles(4)), "elsewhere"
    with pytest.raises(
        CheckpointError,
        match=r"was stopped with train\.epochs=1 instead of 2; give the same options",
    ):
        run(other, data, run_folder, resume=True)
    same = small_config(train__epochs=1, data__own={"path": moved})
    run(same, data, run_folder, resume=True)


def test_last_checkpoint_reads_files_of_older_versions(run_folder, monkeypatch):
    monkeypatch.setattr(callbacks_module.RunHistory, "state_dict", without_fingerprint)
    (run_folder / "last.ckpt").unlink()
    run(small_config(train__epochs=1), triangles(4), run_folder)
    assert (
        last_checkpoint(run_folder, True, "triangles", "0") == run_folder / "last.ckpt"
    )


def without_fingerprint(self):
    return {
        "curves": self.curves,
        "best_epoch": self.best_epoch,
        "best_weights": self.best_weights,
        "seconds": dict(self.clock.seconds),
        "megabytes": self.clock.megabytes,
    }


def test_last_checkpoint_needs_resume_and_a_whole_file(run_folder):
    path = run_folder / "last.ckpt"
    with pytest.raises(TrainingError, match="holds an unfinished run"):
        last_checkpoint(run_folder, False, "triangles", "")
    path.write_bytes(path.read_bytes()[:-500])
    for content in (path.read_bytes(), b"", (run_folder / "best.ckpt").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(
            CheckpointError, match=r"is damaged or not .* to start over"
        ):
            last_checkpoint(run_folder, True, "triangles", "")
    path.unlink()
    assert last_checkpoint(run_folder, True, "triangles", "") is None


@pytest.mark.parametrize(
    ("precision", "gpu", "reason"),
    [
        ("bf16", False, "on a CPU, fast layers need full precision"),
        ("16", True, "fused layers and captured steps need 32 or bf16"),
        ("bf16", True, "this GPU has no arithmetic in bfloat16"),
    ],
)
def test_half_precision_that_is_slower_is_warned_of(
    precision, gpu, reason, monkeypatch
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("torch.cuda.device_count", lambda: int(gpu))
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **_: False)
    with pytest.warns(UserWarning, match=f"slower than 32 here: {reason}"):
        warn_of_precision(precision, Machine("gpu" if gpu else "cpu"))


def test_bf16_on_a_gpu_that_has_it_is_not_warned_of(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **_: True)
    for precision in ("bf16", "32"):
        warn_of_precision(precision, Machine("gpu"))
