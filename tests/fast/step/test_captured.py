import logging
import weakref
from dataclasses import replace

import pytest
import torch

from gnnak.fast.step.captured import FIRST_WARM_UP, WARM_UP, CapturedStep
from gnnak.loading.items import Item, Shape, tensors_of
from gnnak.training.module import GraphTask, build_network
from tests.fast.recorders import CallRecorder
from tests.fast.step.fixed import MODELS, fixed_config, fixed_items, trained
from tests.training.small import edge_counts


class Listener(CallRecorder):
    """Notes what it is asked for; may refuse."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.calls: list[str] = []

    def warm_up(self, work):
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

    def release(self):
        self.calls.append("forget")


def summed(seen: list[Item]):
    """A step that notes the items it was called with, and adds up their features."""

    def step(item: Item) -> torch.Tensor:
        seen.append(item)
        return item.batch.x.sum()

    return step


def test_captured_step_takes_each_item_once_from_fixed_tensors():
    items, seen, listener = fixed_items(fixed_config("gin"), 8), [], Listener()
    captured = CapturedStep(summed(seen), listener)
    losses = [captured(item) for item in items]
    assert losses == [item.batch.x.sum() for item in items]
    assert listener.calls == ["warm"] * FIRST_WARM_UP + ["record"] + ["replay"] * 5
    assert len(seen) == 8
    places = {tuple(t.data_ptr() for t in tensors_of(item)) for item in seen}
    assert len(places) == 1
    for fixed, last in zip(tensors_of(seen[0]), tensors_of(items[-1]), strict=True):
        assert torch.equal(fixed, last)
        assert fixed.data_ptr() != last.data_ptr()


def test_captured_step_reads_a_fixed_item_itself_and_keeps_what_it_derived():
    (item,), seen, listener = fixed_items(fixed_config("gin-ak+"), 1), [], Listener()
    item = replace(item, fixed=True)

    def step(item: Item) -> torch.Tensor:
        seen.append(item)
        item.subgraphs.hop_rows(5)
        return item.batch.x.sum()

    captured = CapturedStep(step, listener)
    places = {t.data_ptr() for t in tensors_of(item)}
    turns = FIRST_WARM_UP + 2
    assert [captured(item) for _ in range(turns)] == [item.batch.x.sum()] * turns
    assert listener.calls == ["warm"] * FIRST_WARM_UP + ["record"] + ["replay"] * 2
    assert places < {t.data_ptr() for t in tensors_of(item)}
    every = {t.data_ptr() for t in tensors_of(item)}
    assert all({t.data_ptr() for t in tensors_of(each)} <= every for each in seen)
    with pytest.raises(AssertionError, match="one fixed item"):
        captured(replace(item))


def items_of_shapes(count: int) -> list[Item]:
    store = edge_counts(8).store
    batches = [store[torch.arange(few)] for few in range(1, count + 1)]
    sizes = [(b.num_graphs, b.num_nodes, b.num_edges, 0, 0, 0) for b in batches]
    shapes = [Shape(*some) for some in sizes]
    return [Item(batch, None, one) for batch, one in zip(batches, shapes, strict=True)]


def repeat(captured: CapturedStep, item: Item, times: int) -> None:
    for _ in range(times):
        captured(item)


def test_captured_step_captures_one_shape_after_the_other():
    items, seen, listener = items_of_shapes(8), [], Listener()
    captured = CapturedStep(summed(seen), listener)
    for item in items:
        for _ in range(FIRST_WARM_UP + 2):
            assert captured(item) == item.batch.x.sum()
    each = ["warm"] * FIRST_WARM_UP + ["record"] + ["replay"] * 2
    assert listener.calls == [*each, "forget"] * 7 + each
    assert len(seen) == (FIRST_WARM_UP + 2) * len(items)


def test_captured_step_captures_shapes_that_fit_inside_of_the_largest_beside_it():
    items, seen, listener = items_of_shapes(3)[::-1], [], Listener()
    captured = CapturedStep(summed(seen), listener)
    turns = FIRST_WARM_UP + WARM_UP + 3
    for _ in range(turns):
        assert [captured(item) for item in items] == [i.batch.x.sum() for i in items]
    assert "forget" not in listener.calls
    assert listener.calls.count("record") == 3
    # Smaller ones wait for the largest to be captured, and are called meanwhile. These
    # calls warm up for the largest, too.
    called, warm = 4, 2 + 2 * WARM_UP
    assert FIRST_WARM_UP - 2 <= 2
    assert listener.calls.count("warm") == warm
    assert listener.calls.count("replay") == 3 * turns - called - warm
    assert len(seen) == 3 * turns
    places = {item.batch.x.data_ptr() for item in seen[-3:]}
    assert len(places) == 1


def test_captured_step_has_no_shape_as_the_largest_twice():
    one, other = items_of_shapes(2)
    taller = one.batch.x.new_zeros(99, one.batch.x.size(1))
    one = replace(one, batch=replace(one.batch, x=taller))
    seen, listener = [], Listener()
    captured = CapturedStep(summed(seen), listener)
    for _ in range(20):
        assert captured(one) == 0
        assert captured(other) == other.batch.x.sum()
    assert listener.calls.count("forget") == 1
    assert listener.calls.count("record") == 1
    # Calls with the other shape warm up, too, but not in place of the last warm-up.
    assert listener.calls.count("warm") == 1 + 2
    assert listener.calls.count("replay") == 20 - 2
    assert len(seen) == 40


def with_x(item: Item, x: torch.Tensor) -> Item:
    return replace(item, batch=replace(item.batch, x=x))


def test_captured_step_has_no_outgrown_smaller_shape_as_the_largest():
    small, middle, large = items_of_shapes(3)
    zeros = small.batch.x.new_zeros
    width = small.batch.x.size(1)
    small, first = with_x(small, zeros(50, width)), with_x(middle, zeros(99, width))
    second, listener = with_x(large, zeros(40, width)), Listener()
    captured = CapturedStep(summed([]), listener)
    for item in [first] * (FIRST_WARM_UP + 1) + [small] * 2 + [second] + [small] * 5:
        captured(item)
    assert listener.calls.count("forget") == 1
    assert listener.calls.count("record") == 2


def test_captured_step_puts_no_item_where_numbers_are_of_another_type():
    small, large = items_of_shapes(2)
    halves, listener = with_x(small, small.batch.x / 2), Listener()
    captured = CapturedStep(summed([]), listener)
    repeat(captured, large, FIRST_WARM_UP + 1)
    assert captured(halves) == halves.batch.x.sum()
    assert listener.calls[-2:] == ["forget", "warm"]


def test_captured_step_captures_smaller_shapes_again_once_the_largest_has_grown():
    small, middle, large = items_of_shapes(3)
    seen, listener = [], Listener()
    captured = CapturedStep(summed(seen), listener)
    for largest in (middle, large):
        repeat(captured, largest, FIRST_WARM_UP + 1)
        for _ in range(WARM_UP + 1):
            assert captured(small) == small.batch.x.sum()
    assert listener.calls.count("forget") == 1
    assert listener.calls.count("record") == 4


class Holder(CallRecorder):
    """Counts how much of what it captured is still there, now and again."""

    def __init__(self) -> None:
        self.held: list[weakref.ref] = []
        self.alive: list[int] = []

    def warm_up(self, work):
        self.alive.append(self.count())
        return work()

    def record(self, work):
        self.held.append(weakref.ref(work))
        return work

    def release(self):
        self.alive.append(self.count())

    def count(self):
        return sum(one() is not None for one in self.held)


def test_captured_step_holds_nothing_of_the_shape_before_when_it_warms_up():
    holder, fixed = Holder(), []

    def step(item: Item) -> torch.Tensor:
        fixed.append(weakref.ref(item.batch.x))
        return item.batch.x.sum()

    captured = CapturedStep(step, holder)
    for item in items_of_shapes(3):
        repeat(captured, item, FIRST_WARM_UP + 2)
    assert set(holder.alive) == {0}
    assert holder.count() == 1
    assert [one() is not None for one in fixed] == [False] * 10 + [True] * 5


def test_captured_step_frees_gradients_before_the_graphs():
    listener, told = Listener(), []
    listener.release = lambda: told.append("graphs")
    captured = CapturedStep(summed([]), listener, lambda: told.append("gradients"))
    for item in items_of_shapes(3):
        captured(item)
    assert told == ["gradients", "graphs"] * 2


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
    assert all(a is b for a, b in zip(seen[3:], items[3:], strict=True))
    assert listener.calls == ["warm"] * FIRST_WARM_UP + ["record", "forget"]
    told = "steps are not captured, which is slower: operation not permitted"
    assert [record.getMessage() for record in caplog.records] == [told]


def test_captured_step_gives_all_memory_back_when_a_smaller_shape_resists():
    small, large = items_of_shapes(2)
    listener = Listener()
    captured = CapturedStep(summed([]), listener)
    repeat(captured, large, FIRST_WARM_UP + 1)
    listener.refuses = True
    for _ in range(WARM_UP + 2):
        assert captured(small) == small.batch.x.sum()
    assert captured(large) == large.batch.x.sum()
    assert listener.calls[-2:] == ["record", "forget"]


def test_captured_step_refuses_an_item_that_has_derived_more_than_others():
    items = fixed_items(fixed_config("gin-ak+"), 2)
    captured = CapturedStep(lambda item: item.subgraphs.node.sum(), Listener())
    captured(items[0])
    assert items[1].subgraphs.hop_rows(4) is not None
    with pytest.raises(AssertionError, match="other fields"):
        captured(items[1])


def test_captured_step_derives_values_again_for_every_item():
    derived = []

    def step(item: Item) -> torch.Tensor:
        derived.append(item.subgraphs.by("node").order.clone())
        return item.subgraphs.node.sum()

    items = fixed_items(fixed_config("gin-ak+"), 6)
    for turn, item in enumerate(items):
        item.subgraphs.__dict__.pop("_derived")
        item.subgraphs.node.copy_(item.subgraphs.node.roll(turn))
    captured = CapturedStep(step, Listener())
    for item in items:
        captured(item)
    for order, item in zip(derived, items, strict=True):
        assert torch.equal(order, item.subgraphs.by("node").order)


@pytest.mark.heavy
@pytest.mark.parametrize("model", MODELS)
def test_captured_step_trains_as_the_step_does(model):
    config = fixed_config(model, train__precision="64", train__clip=0.5)
    one, other = (trained(config, captured) for captured in (False, True))
    assert torch.equal(one, other)


def test_a_task_frees_its_gradients_when_training_ends():
    config, info = fixed_config("gin"), edge_counts(8).info
    task = GraphTask(config, info, build_network(config, info), capture=True)
    for weight in task.parameters():
        weight.grad = torch.ones_like(weight)
    task.on_train_end()
    assert all(weight.grad is None for weight in task.parameters())
