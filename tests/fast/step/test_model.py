"""Gradients of captured passes, at fixed addresses; calls replace captures."""

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_flatten
from torch_geometric.nn import global_add_pool

from gnnak import GraphLoader, TrainingStep
from gnnak.errors import OptionError
from gnnak.fast.step.captured import _Passes, separate_gradients
from gnnak.loop import training_step as training_step_module
from gnnak.loop.training_step import MOST_CAPTURED
from tests.fast.recorders import CallRecorder, maker_with
from tests.loop.models import Gine, assert_same_weights, mae, molecules, sgd_step, twins


def captured_backward(weight):
    """Return passes whose replays write gradients of 1, 2, 3 ... to one tensor."""
    passes = object.__new__(_Passes)
    gradient = torch.zeros_like(weight)
    passes.weights, passes.gradients = [weight], {id(weight): gradient}
    passes.written = [(weight, gradient)]
    passes.of_outputs, passes.replay_backward = [], lambda: gradient.add_(1)
    return passes


def test_gradients_that_are_not_set_to_none_add_up():
    weight = nn.Parameter(torch.zeros(2))
    passes = captured_backward(weight)
    for wanted in (1, 1 + 2, 1 + 2 + 3):
        passes.backward([])
        assert weight.grad.tolist() == [wanted] * 2


def test_gradients_are_those_of_the_last_replay_when_set_to_none_before():
    weight = nn.Parameter(torch.zeros(2))
    passes = captured_backward(weight)
    for wanted in (1, 2, 3):
        weight.grad = None
        passes.backward([])
        assert weight.grad is passes.gradients[id(weight)]
        assert weight.grad.tolist() == [wanted] * 2


def test_weights_outside_of_the_model_have_gradients_that_are_not_captured():
    inside, outside = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    passes = captured_backward(inside)
    passes.backward([])
    assert passes.has_own_gradients([inside, outside])
    outside.grad = torch.ones(2)
    assert not passes.has_own_gradients([inside, outside])


def test_gradients_that_share_memory_or_are_transposed_are_separated():
    weights = [torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2)]
    gradient = torch.arange(6.0).view(2, 3)
    transposed = torch.arange(6.0).view(3, 2).T
    found = separate_gradients([gradient, gradient, transposed, None], weights)
    assert found[0] is gradient
    assert found[3] is None
    for value, wanted in zip(found[:3], (gradient, gradient, transposed), strict=True):
        assert torch.equal(value, wanted)
        assert value.is_contiguous()
    assert len({value.data_ptr() for value in found[:3]}) == 3


def captured_forward():
    """Return passes whose replays write outputs of 1, 2, 3 ... to two tensors."""
    passes, static = object.__new__(_Passes), [torch.zeros(2), torch.zeros(2)]

    def replay():
        for each in static:
            each.add_(1)

    passes.outputs, passes.spec = tree_flatten(tuple(static))
    passes.differentiable, passes.positions = static[:1], {0}
    passes.replay_forward, passes.of_outputs = replay, [torch.zeros(2)]
    passes.anchor = torch.zeros((), requires_grad=True)
    return passes


def test_outputs_that_a_loss_keeps_are_not_overwritten():
    passes = captured_forward()
    kept = [passes() for _ in range(3)]
    for number, outputs in enumerate(kept, 1):
        assert [out.tolist() for out in outputs] == [[number] * 2] * 2
        assert [out.requires_grad for out in outputs] == [True, False]


@pytest.fixture
def captured(monkeypatch):
    """Capture the steps of `TrainingStep`, with calls in place of CUDA graphs."""
    make = maker_with(CallRecorder())
    monkeypatch.setattr(training_step_module, "make_captured_model", make)


def test_a_loss_with_weights_of_its_own_trains_them(captured):
    one, other = twins(Gine())
    scales = [nn.Parameter(torch.ones((), dtype=torch.double)) for _ in range(2)]
    steps, passes = [], []
    for model, scale, capture in zip((one, other), scales, (True, False), strict=True):
        optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.01)

        def loss(out, batch, scale=scale):
            return mae(out, batch) * scale.exp() + scale.square()

        steps.append(TrainingStep(model, loss, optimizer, capture=capture))
    for batch in GraphLoader(molecules(), 4, pad=True):
        for step in steps:
            step(batch)
        passes += [found.run.last for found in steps[0]._captured.values()]
    assert any(each is not None for each in passes)
    assert all(each is None or each.replay_update is None for each in passes)
    torch.testing.assert_close(*scales, rtol=1e-9, atol=1e-9)
    assert_same_weights(one, other, 1e-9)


def other_weights(model):
    copies = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(copies, assign=True)


def other_addresses(model):
    for weight in model.parameters():
        weight.data = weight.data.clone()


CHANGES = {
    "other buffers": lambda model: setattr(
        model.norm, "running_mean", model.norm.running_mean.clone()
    ),
    "other weights": other_weights,
    "other addresses": other_addresses,
}


@pytest.mark.parametrize("name", CHANGES)
def test_steps_are_captured_anew_after(captured, name):
    model = Gine().double()
    step, batches = sgd_step(model), [*GraphLoader(molecules(), 6, pad=True)]
    step(batches[0])
    before = [each.run for each in step._captured.values()]
    step(batches[1])
    assert [each.run for each in step._captured.values()] == before
    CHANGES[name](model)
    step(batches[2])
    after = [each.run for each in step._captured.values()]
    assert len(after) == 1
    assert after != before
    assert after[0].weights == [*model.parameters()]


class Sums(nn.Module):
    """Takes features of any width and dtype."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.double))

    def forward(self, x, batch):
        ones = self.scale * x.sum(dim=1).double()
        return global_add_pool(ones, batch)


def test_fields_of_another_width_or_dtype_are_captured_separately(captured):
    step = sgd_step(Sums(), rate=0.0)
    kinds = (lambda x: x, lambda x: x[:, :1], lambda x: x.float())
    found, wanted, loader = [], [], GraphLoader(molecules(18), 6, pad=True)
    for _ in range(8):
        for batch, kind in zip(loader, kinds, strict=True):
            batch.x = kind(batch.x)
            found.append(float(step(batch)))
            sums = global_add_pool(batch.x.sum(dim=1).double(), batch.batch)
            wanted.append(float(mae(sums, batch)))
    assert found == pytest.approx(wanted)
    assert step.reason is None
    assert len(step._captured) == 3


def test_a_new_loader_per_epoch_does_not_take_more_and_more_memory(captured):
    step = sgd_step(Gine().double())
    seen = []
    for _ in range(MOST_CAPTURED + 2):
        for batch in GraphLoader(molecules(6), 6, pad=True):
            step(batch)
        now = [each.run for each in step._captured.values()]
        seen += [each for each in now if each not in seen]
    assert len(seen) == MOST_CAPTURED + 2
    assert len(step._captured) == MOST_CAPTURED
    closed = [each._largest is None for each in seen]
    assert closed == [True] * 2 + [False] * MOST_CAPTURED


def test_a_frozen_model_with_a_trained_loss_is_not_captured(captured):
    model, scale = Gine().double().requires_grad_(False), nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([scale], 0.1)
    step = TrainingStep(model, lambda out, batch: mae(out, batch) * scale, optimizer)
    for batch in GraphLoader(molecules(18), 6, pad=True):
        step(batch)
    assert "frozen" in step.reason
    assert scale < 1


@pytest.fixture
def group():
    """A process group of one process."""
    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def test_captured_steps_of_wrapped_models_call_hooks_of_weights(captured, group):
    one, other = twins(Gine())
    for model in (one, other):
        model.start.weight.register_hook(lambda grad: grad / 4)
    steps = sgd_step(DistributedDataParallel(one)), sgd_step(other, capture=False)
    passes, loader = [], GraphLoader(molecules(), 6, pad=True)
    for batch in [*loader, *loader]:
        for step in steps:
            step(batch)
        passes += [found.run.last for found in steps[0]._captured.values()]
    assert any(each is not None for each in passes)
    assert_same_weights(one, other, 1e-9)


class StoresWeight(Gine):
    """Reads a weight from a list, in which a capture cannot replace it."""

    def __init__(self):
        super().__init__()
        self.stored = [self.start.weight]

    def forward(self, x, batch):
        return global_add_pool(x @ self.stored[0].T, batch).sum(dim=1)


def test_a_weight_stored_outside_of_the_parameters_of_a_wrapped_model_is_an_error(
    captured, group
):
    step = sgd_step(DistributedDataParallel(StoresWeight().double()))
    batches = [*GraphLoader(molecules(), 6, pad=True)]
    with pytest.raises(RuntimeError, match="a weight outside of its parameters"):
        list(map(step, batches))


@pytest.mark.parametrize("option", ["find_unused_parameters", "static_graph", ""])
def test_steps_of_models_with_other_options_of_ddp_are_not_captured(
    captured, group, option
):
    model = Gine().double()
    if not option:
        model._ddp_params_and_buffers_to_ignore = ["head.bias"]
    options = {option: True} if option else {}
    step = sgd_step(DistributedDataParallel(model, **options))
    for batch in GraphLoader(molecules(12), 6, pad=True):
        step(batch)
    assert "a static graph, or unused or ignored weights" in step.reason


def test_a_step_in_join_of_ddp_is_refused(captured, group):
    model = DistributedDataParallel(Gine().double())
    batch = next(iter(GraphLoader(molecules(6), 6, pad=True)))
    with pytest.raises(OptionError, match=r"leave out join\(\)"), model.join():
        sgd_step(model)(batch)
    with model.join():
        sgd_step(model, capture=False)(batch)
