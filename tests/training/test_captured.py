import logging

import pytest
import torch

from gnnak.training.captured import MOST_SHAPES, WARM_STEPS, CapturedStep
from gnnak.training.flat import tensors_of
from gnnak.training.items import Item
from gnnak.training.recorder import CallRecorder, make_recorder
from tests.training.fixed import fixed_config, fixed_items, fixed_step
from tests.training.small import edge_counts

MODELS = ["gin-ak+", "gin", "gin-ak+-s"]


class Listener(CallRecorder):
    """Notes what it is asked for; may refuse."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.calls: list[str] = []

    def warm(self, work):
        self.calls.append("warm")
        return work()

    def record(self, work):
        self.calls.append("record")
        if self.refuses:
            raise RuntimeError("operation not permitted\nwhen stream is capturing")

        def replay():
            self.calls.append("replay")
            return work()

        return replay


def summed(seen: list[Item]):
    """A step that notes the items it was called with, and adds up their features."""

    def step(item: Item) -> torch.Tensor:
        seen.append(item)
        return item.batch.x.sum()

    return step


def test_captured_step_takes_each_item_once_at_last_from_fixed_tensors():
    items, seen, listener = fixed_items(fixed_config("gin"), 8), [], Listener()
    captured = CapturedStep(summed(seen), listener)
    losses = [captured(item) for item in items]
    assert losses == [item.batch.x.sum() for item in items]
    assert listener.calls == ["warm"] * WARM_STEPS + ["record"] + ["replay"] * 5
    assert len(seen) == 8
    assert all(item is seen[-1] for item in seen[WARM_STEPS:])
    assert seen[-1] not in items
    for fixed, last in zip(tensors_of(seen[-1]), tensors_of(items[-1]), strict=True):
        assert torch.equal(fixed, last)
        assert fixed.data_ptr() != last.data_ptr()


def test_captured_step_keeps_shapes_apart_and_captures_a_few():
    plain = fixed_items(fixed_config("gin"), 1)[0]
    positions = [torch.arange(count) for count in range(1, MOST_SHAPES + 2)]
    store, seen, listener = edge_counts(8).store, [], Listener()
    items = [Item(store[few], None, plain.real) for few in positions]
    captured = CapturedStep(summed(seen), listener)
    for _ in range(WARM_STEPS + 2):
        assert [captured(item) for item in items] == [i.batch.x.sum() for i in items]
    assert listener.calls.count("record") == MOST_SHAPES
    assert listener.calls.count("replay") == 2 * MOST_SHAPES
    assert len(seen) == (WARM_STEPS + 2) * len(items)


def test_captured_step_calls_the_step_for_items_that_are_not_padded():
    padded, listener = fixed_items(fixed_config("gin"), 8), Listener()
    captured = CapturedStep(summed([]), listener)
    for item in padded:
        captured(Item(item.batch))
    assert listener.calls == []


def test_captured_step_that_cannot_be_captured_says_so_once_and_goes_on(caplog):
    items, seen, listener = fixed_items(fixed_config("gin"), 8), [], Listener(True)
    captured = CapturedStep(summed(seen), listener)
    with caplog.at_level(logging.WARNING, "gnnak"):
        losses = [captured(item) for item in items]
    assert losses == [item.batch.x.sum() for item in items]
    assert all(a is b for a, b in zip(seen, items, strict=True))
    assert listener.calls == ["warm"] * WARM_STEPS + ["record"]
    told = "steps are not captured, which is slower: operation not permitted"
    assert [record.getMessage() for record in caplog.records] == [told]


@pytest.mark.parametrize("model", MODELS)
def test_captured_step_trains_as_the_step_does(model):
    check_same_training("cpu", model, train__precision="64", train__clip=0.5)


def check_same_training(device: str, model: str, **options: object) -> None:
    config = fixed_config(model, **options)
    items = fixed_items(config, 20, device)
    losses, weights = [], []
    for capture in (False, True):
        task, step = fixed_step(config, device)
        if capture:
            step = CapturedStep(step, make_recorder(torch.device(device)))
        torch.manual_seed(3)
        losses.append(torch.stack([step(item) for item in items]))
        weights.append(task.network.state_dict())
        assert not capture or not step.gave_up
    exact = {"rtol": 0.0, "atol": 0.0}
    close = exact if device == "cpu" else {"rtol": 1e-3, "atol": 1e-4}
    assert losses[0].isfinite().all()
    torch.testing.assert_close(losses[1], losses[0], **close)
    if device == "cpu":
        torch.testing.assert_close(weights[1], weights[0], **close)
