import io

import pytest
import torch
from lightning.pytorch.strategies import SingleDeviceStrategy
from rich.console import Console
from torch import nn

from gnnak.errors import TrainingError
from gnnak.loading.items import Item
from gnnak.models import ModelOptions, build_model
from gnnak.nn.norm import BatchNorm
from gnnak.training import timing as timing_module
from gnnak.training.callbacks import recalibrate
from gnnak.training.module import batch_statistics
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import load_checkpoint
from gnnak.training.run import evaluate, run
from tests.training.small import edge_counts, small_config, triangles


@pytest.mark.parametrize("width", [60, 80, 120])
def test_progress_lines_fit_the_screen(width, tmp_path):
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    config = small_config(data__target=None, train__epochs=2)
    with console.capture() as capture:
        run(config, triangles(4), tmp_path, Machine("cpu"), console=console)
    shown = Console(width=width).render_str(capture.get()).plain
    assert "triangles gin-ak+ seed 0" in shown
    assert "2/2" in shown
    assert "in epoch" in shown
    assert "…" not in shown


def test_progress_lines_write_the_last_state_to_a_file(tmp_path):
    file = io.StringIO()
    console = Console(file=file, width=80)
    run(small_config(), triangles(4), tmp_path, Machine("cpu"), console=console)
    bar, told = file.getvalue().splitlines()
    assert bar.startswith("triangles gin-ak+ seed 0 ━━━")
    assert bar.endswith(" 3/3 0:00:00")
    assert len(bar) == 80
    assert told.startswith("  loss ")


def test_processes_that_start_after_different_steps_end_with_one_sentence(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(SingleDeviceStrategy, "broadcast", lambda *_: 7)
    told = r"the first process starts after step 7, but this one after step 0: not all"
    with pytest.raises(TrainingError, match=told):
        run(small_config(), triangles(4), tmp_path, Machine("cpu"))


def _network(name: str = "gin-ak+", **options: object) -> nn.Module:
    info = edge_counts().info
    options = {"num_layers": 2, "channels": 8, "dropout": 0.5} | options
    features = info.node_features, info.edge_features
    return build_model(name, *features, 1, ModelOptions(**options)).eval()


def _items(*sizes: int) -> list[Item]:
    store, start = edge_counts().store, 0
    items = []
    for size in sizes:
        items.append(Item(store[torch.arange(start, start + size)]))
        start += size
    return items


@pytest.mark.parametrize("name", ["gin", "gin-ak+", "gin-ak+-s", "pna*", "ppgn-ak+"])
def test_recalibrate_makes_evaluation_equal_to_batch_statistics(name):
    network, (item,) = _network(name).double(), _items(6)
    with torch.no_grad():
        with batch_statistics(network):
            wanted = network(item.batch)
        assert not torch.allclose(network(item.batch), wanted)
        recalibrate(network, [item])
        assert torch.allclose(network(item.batch), wanted)


def test_recalibrate_averages_batches_by_their_rows():
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = BatchNorm(1)

        def forward(self, batch, subgraphs=None):
            return self.norm(batch.y[:, None])

    network, items = Rows().eval(), _items(3, 5)
    first, second = (item.batch.y for item in items)
    recalibrate(network, items)
    mean = torch.cat([first, second]).mean()
    spread = [y.var(correction=0) for y in (first, second)]
    assert torch.allclose(network.norm.running_mean, mean)
    assert torch.allclose(network.norm.running_var, (3 * spread[0] + 5 * spread[1]) / 8)


def test_recalibrate_changes_nothing_but_running_statistics():
    network = _network()
    before = {k: v.clone() for k, v in network.state_dict().items()}
    recalibrate(network, _items(4, 4))
    changed = {
        key.rpartition(".")[2]
        for key, value in network.state_dict().items()
        if not torch.equal(value, before[key])
    }
    assert changed == {"running_mean", "running_var"}
    norms = [module for module in network.modules() if isinstance(module, BatchNorm)]
    assert not any(norm.training or norm._forward_pre_hooks for norm in norms)
    assert all(norm.momentum == 0.1 for norm in norms)


def test_recalibrate_ignores_empty_batches_and_single_rows():
    network = _network()
    before = {k: v.clone() for k, v in network.state_dict().items()}
    recalibrate(network, [])
    recalibrate(network, [Item(edge_counts().store[torch.arange(0)])])
    after = network.state_dict()
    assert all(torch.equal(after[key], before[key]) for key in before)
    recalibrate(network, _items(1))
    head = [key for key in before if key.startswith("head") and "running" in key]
    assert head
    assert all(torch.equal(network.state_dict()[key], before[key]) for key in head)


def test_run_scores_a_constant_input_with_recalibrated_statistics(tmp_path):
    # All nodes of `triangles` have the same features and degree. The batch norm of the
    # first layer's messages has variance 0, and its mean changes in every step.
    data, shared = triangles(), {"model__name": "pna*", "train__learning_rate": 0.02}
    config = small_config(**shared, train__recalibrate=True)
    record = run(config, data, tmp_path)
    checkpoint = load_checkpoint(tmp_path / "best.ckpt")
    for part in ("validation", "test"):
        assert evaluate(checkpoint, data, part).score == record["scores"][part]
    network, train = checkpoint.network().eval(), data.split == 0
    (norm,) = (
        module
        for name, module in network.named_modules()
        if isinstance(module, BatchNorm)
        and name.startswith("layers.0.")
        and "message" in name
    )
    inputs = []
    norm.register_forward_pre_hook(lambda _, rows: inputs.append(rows[0]))
    network(data.store[train.nonzero().flatten()])
    assert norm.running_var.max() < 1e-9
    assert torch.allclose(inputs[0].mean(dim=0), norm.running_mean, atol=1e-6)


def test_run_recalibrates_in_float64(tmp_path):
    config = small_config(train__recalibrate=True, train__precision="64")
    scores = run(config, triangles(), tmp_path)["scores"]
    assert 0 <= scores["test"] <= 1


def test_timing_counts_training_and_evaluation_separately(monkeypatch):
    now = iter([0.0, 3.0, 3.0, 10.0, 20.0, 25.0])
    monkeypatch.setattr(timing_module.time, "perf_counter", lambda: next(now))
    clock = timing_module.Clock()
    callback = timing_module.Timing(clock)
    callback.on_train_epoch_start(None, None)
    callback.on_validation_start(None, None)
    callback.on_validation_end(None, None)
    callback.on_train_epoch_start(None, None)
    callback.on_exception(None, None, ValueError())
    assert dict(clock.seconds) == {"train": 3.0 + 5.0, "evaluation": 7.0}
    assert set(clock.megabytes) == {"train", "evaluation"}
