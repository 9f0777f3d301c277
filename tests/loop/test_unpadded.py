"""Steps on batches that the loader has not padded."""

import pytest
import torch

from gnnak import EgoNets, GraphLoader, TrainingStep, uplift
from gnnak.graphs.real import real_counts_of
from gnnak.loading import graph_loader
from gnnak.loading.padder import Demand
from gnnak.loop import training_step as training_step_module
from gnnak.loop.verification import _is_close
from tests.loop.models import (
    Gine,
    assert_same_weights,
    by_hand,
    by_step,
    fields,
    mae,
    molecules,
    sgd_step,
    twins,
)


@pytest.fixture
def loader(monkeypatch, calls):
    """A loader that pads as on a GPU; captures are replaced by calls."""
    monkeypatch.setattr(graph_loader, "Demand", lambda _: Demand(False))
    return GraphLoader(molecules(29), 3, subgraphs=EgoNets(1), pad=True)


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(TrainingStep, "device", torch.device("cuda"))
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: torch.enable_grad())


def replays(step: TrainingStep) -> int:
    ((captured, _),) = step._captured.values()
    return sum(each.replay is not None for each in captured._buffers.values())


def count_calls(monkeypatch) -> list[object]:
    """Count the batches on which a model is called without padding."""
    calls, call = [], training_step_module.call_model

    def counted(model, batch):
        if real_counts_of(batch) is None:
            calls.append(batch)
        return call(model, batch)

    monkeypatch.setattr(training_step_module, "call_model", counted)
    return calls


def test_epochs_over_a_list_of_batches_are_captured(loader, monkeypatch):
    calls = count_calls(monkeypatch)
    one, other = twins(uplift(Gine(), num_hops=1))
    batches = list(loader)
    found, step = by_step(one, batches * 3)
    assert len(calls) == 4, "only comparisons need no padding"
    assert replays(step)
    wanted = by_hand(other, batches * 3, fields)
    assert found == pytest.approx(wanted, rel=1e-7)
    assert_same_weights(one, other, 1e-6)


def test_passes_without_a_step_do_not_harm_the_next_epoch(loader, monkeypatch):
    calls = count_calls(monkeypatch)
    for _ in range(3):
        assert len(list(loader)) == 10
    step = sgd_step(Gine().double().train())
    for _ in range(2):
        for batch in loader:
            step(batch)
        for _ in range(4):
            list(loader)
    assert len(calls) == 4


def test_a_batch_that_cannot_be_padded_is_logged_once(loader, on_gpu, caplog):
    def changed():
        for number, batch in enumerate(loader):
            if number > 2:
                batch.edge_index = batch.edge_index.clone()
            yield batch

    _, step = by_step(Gine().double(), changed())
    assert step._captured
    (record,) = caplog.records
    assert record.getMessage() == (
        "steps on some batches are not captured, which is slower: the field "
        "'edge_index' of the batch was added, replaced or changed"
    )


def test_batches_of_a_loader_that_does_not_pad_are_logged_once(on_gpu, caplog):
    by_step(Gine().double(), GraphLoader(molecules(9), 3, pad=False))
    (record,) = caplog.records
    advice = "use batches of a GraphLoader on the GPU, without pad=False"
    assert advice in record.getMessage()


def test_a_last_batch_of_one_graph_is_not_logged(on_gpu, caplog):
    graphs = molecules(7, nodes=True)
    _, step = by_step(Gine(nodes=True).double(), GraphLoader(graphs, 3, pad=True))
    assert step._captured
    assert not caplog.records


@pytest.mark.parametrize("late", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_list_of_batches_may_be_shuffled(loader, monkeypatch, late):
    torch.manual_seed(0)
    if not late:
        monkeypatch.setattr(graph_loader, "Demand", lambda _: Demand(True))
    graphs = molecules(160, most=30)
    batches = list(GraphLoader(graphs, 4, True, subgraphs=EgoNets(1), pad=True))
    one, other = twins(uplift(Gine(), num_hops=1))
    order = [torch.randperm(len(batches)).tolist() for _ in range(3)]
    results = []
    for model, capture in ((one, True), (other, False)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        step = TrainingStep(model.train(), mae, optimizer, capture=capture)
        losses = [step(batches[i]) for epoch in order for i in epoch]
        results.append(torch.stack(losses))
    torch.testing.assert_close(*results)


def test_outputs_that_are_nan_in_the_same_places_are_equal():
    one = torch.tensor([1.0, float("nan")])
    assert _is_close(one, one.clone())
    assert not _is_close(one, torch.tensor([float("nan"), 1.0]))
    assert not _is_close(one, torch.tensor([2.0, float("nan")]))
