"""What a `TrainingStep` does with its captured models, and says about them."""

import pytest
import torch
from torch.optim import SGD, Adam

from gnnak import GraphLoader, TrainingStep
from gnnak.loop.changes import ModelWatch
from gnnak.loop.training_step import MOST_CAPTURED
from tests.loop.models import Gine, fields, mae, molecules


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


def adam_step(model: Gine) -> tuple[Gine, TrainingStep]:
    model = model.double().train()
    return model, TrainingStep(model, mae, Adam(model.parameters()))


CHANGES = {
    "frozen": lambda model: model.start.requires_grad_(False),
    "evaluated": lambda model: model.norm.eval(),
    "another weight": lambda model: setattr(
        model.start.weight, "data", model.start.weight.data.clone()
    ),
    "another number": lambda model: setattr(model.norm, "eps", 0.5),
    "another config": lambda model: model.config.update(p=0.5),
}


def test_another_dtype_of_autocast_is_a_change_of_the_model():
    watch = ModelWatch(Gine())
    for dtype in (torch.bfloat16, torch.half):
        with torch.autocast("cpu", dtype=dtype):
            assert watch.has_changed(quick=True)
            assert not watch.has_changed(quick=True)


@pytest.mark.parametrize("name", CHANGES)
def test_captured_models_are_closed_when_the_model_changes(recorder, name):
    model, step = adam_step(Gine())
    model.config = {"p": 0.1}
    run_epoch(step)
    ((before, _),) = step._captured.values()
    assert before._buffers
    assert recorder.released == 0
    CHANGES[name](model)
    run_epoch(step)
    assert not before._buffers
    assert recorder.released == 1
    assert before not in step._captured.values()


def test_the_oldest_captured_model_is_closed_when_there_are_many(recorder):
    _, step = adam_step(Gine())
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
    _, step = adam_step(Gine())
    rates = torch.optim.lr_scheduler.OneCycleLR(step.optimizer, 0.1, total_steps=20)
    for batch in [*GraphLoader(molecules(15), 3, pad=True)] * 3:
        step(batch)
        rates.step()
    (record,) = caplog.records
    assert "options of the optimiser change from step to step" in record.getMessage()


def test_nothing_is_logged_if_updates_are_captured(caplog):
    _, step = adam_step(Gine())
    run_epoch(step)
    assert not caplog.records


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
    model, step = adam_step(Annealed())
    for _ in range(3):
        run_epoch(step)
        before = model.calls
        run_epoch(lambda batch: fields(model, batch))
        assert model.calls > before, "calls for evaluation change the counter, too"
    assert recorder.released == 0
    assert step.reason is None


def test_numbers_that_change_after_each_step_end_the_capture_with_a_reason(caplog):
    model, step = adam_step(Annealed())
    for number, batch in enumerate(GraphLoader(molecules(30), 3, pad=True)):
        model.temperature = 1.0 + number
        step(batch)
    assert step.reason.startswith("Annealed.temperature has changed between steps 5")
    assert caplog.text.count("Annealed.temperature") == 1
    assert not step._captured
