"""What a `TrainingStep` does with its captured models, and says about them."""

import pytest
import torch
from torch.optim import SGD, Adam

from gnnak import GraphLoader, TrainingStep
from gnnak.loop.changes import ModelWatch
from gnnak.loop.training_step import MOST_CAPTURED
from tests.loop.models import Gine, mae, molecules


class OwnOptimizer(SGD):
    """An optimiser of the user; steps of such optimisers are not captured."""


@pytest.fixture(autouse=True)
def recorder(record_with):
    from tests.fast.recorders import CallRecorder

    class Counting(CallRecorder):
        released = 0

        def release(self) -> None:
            self.released += 1

    return record_with(Counting())


def run_epoch(step: TrainingStep, seed: int = 0) -> None:
    for batch in GraphLoader(molecules(15, seed), 3, pad=True):
        step(batch)


def freeze(model):
    model.start.requires_grad_(False)


def evaluate(model):
    model.norm.eval()


def replace_weight(model):
    model.start.weight.data = model.start.weight.data.clone()


def change_number(model):
    model.norm.eps = 0.5


def change_config(model):
    model.config["p"] = 0.5


CHANGES = [freeze, evaluate, replace_weight, change_number, change_config]


def test_another_dtype_of_autocast_is_a_change_of_the_model():
    watch = ModelWatch(Gine())
    for dtype in (torch.bfloat16, torch.half):
        with torch.autocast("cpu", dtype=dtype):
            assert watch.has_changed(quick=True)
            assert not watch.has_changed(quick=True)


@pytest.mark.parametrize("change", CHANGES)
def test_captured_models_are_closed_when_the_model_changes(recorder, change):
    model = Gine().double().train()
    model.config = {"p": 0.1}
    step = TrainingStep(model, mae, Adam(model.parameters()))
    run_epoch(step)
    ((before, _),) = step._captured.values()
    assert before._buffers
    assert recorder.released == 0
    change(model)
    run_epoch(step)
    assert not before._buffers
    assert recorder.released == 1
    assert before not in step._captured.values()


def test_the_oldest_captured_model_is_closed_when_there_are_many(recorder):
    model = Gine().double().train()
    step = TrainingStep(model, mae, Adam(model.parameters()))
    for _ in range(MOST_CAPTURED + 1):
        run_epoch(step)
    assert len(step._captured) == MOST_CAPTURED
    assert recorder.released == 1


def test_an_optimizer_whose_steps_are_not_captured_is_logged_once(caplog):
    model = Gine().double().train()
    step = TrainingStep(model, mae, OwnOptimizer(model.parameters(), 0.1))
    run_epoch(step)
    run_epoch(step)
    assert [record.getMessage() for record in caplog.records] == [
        "updates of the optimizer are not captured, which is slower: OwnOptimizer has "
        "no option capturable"
    ]
    assert step.reason is None


def test_options_that_change_in_every_step_are_logged_once(caplog):
    model = Gine().double().train()
    optimizer = Adam(model.parameters())
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
    step = TrainingStep(model, mae, optimizer)
    for batch in [*GraphLoader(molecules(15), 3, pad=True)] * 3:
        step(batch)
        rates.step()
    (record,) = caplog.records
    assert "options of the optimiser change from step to step" in record.getMessage()


def test_nothing_is_logged_if_updates_are_captured(caplog):
    model = Gine().double().train()
    step = TrainingStep(model, mae, Adam(model.parameters()))
    run_epoch(step)
    assert not caplog.records


def named_fields(batch):
    return batch.x, batch.edge_index, batch.edge_attr, batch.batch


class Annealed(Gine):
    """A model with a number that the user changes, and one that changes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature, self.calls = 1.0, 0
        self.counts = {"calls": 0, "nodes": []}

    def forward(self, x, edge_index, edge_attr, batch):
        self.calls += 1
        self.counts["calls"] += 1
        self.counts["nodes"] = [*self.counts["nodes"], x.size(0)]
        return super().forward(x, edge_index, edge_attr, batch) / self.temperature


def test_counters_of_a_model_do_not_end_its_capture(recorder):
    model = Annealed().double().train()
    step = TrainingStep(model, mae, Adam(model.parameters()))
    for _ in range(3):
        run_epoch(step)
        before = model.calls
        run_epoch(lambda batch: model(*named_fields(batch)))
        assert model.calls > before, "calls for evaluation change the counter, too"
    assert recorder.released == 0
    assert step.reason is None


def test_numbers_that_change_after_each_step_end_the_capture_with_a_reason(caplog):
    model = Annealed().double().train()
    step = TrainingStep(model, mae, Adam(model.parameters()))
    for number, batch in enumerate(GraphLoader(molecules(30), 3, pad=True)):
        model.temperature = 1.0 + number
        step(batch)
    assert step.reason.startswith("Annealed.temperature has changed between steps 5")
    assert caplog.text.count("Annealed.temperature") == 1
    assert not step._captured
