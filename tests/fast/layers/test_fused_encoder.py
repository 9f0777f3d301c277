"""Encodings that are made again: the same values and gradients, and nothing is kept."""

import copy
import weakref

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gnnak.fast.layers.encoder import can_recompute
from gnnak.fast.layers.parts import blocks_of
from gnnak.models.layers import Kernel, run_with_edges
from gnnak.nn.base.convs import gine
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.padding import RealRows, real_rows


def an_encoder():
    """An encoder of two columns that has seen something, and rows for it."""
    torch.manual_seed(0)
    encoder = ContinuousEncoder(2, 5).double()
    encoder(torch.randn(9, 2).double(), 9)
    return encoder, torch.randn(8, 2).double().requires_grad_()


def used(encoder, values, again):
    """All that comes of using encodings twice; whether they were kept meanwhile."""
    if again:
        seen = []

        def use(states):
            seen.append(weakref.ref(states))
            return (states * states).sum() + (states**3).sum()

        out = run_with_edges(encoder, values, 8, use)
        (seen,) = seen
    else:
        states = encoder(values, 8)
        out = (states * states).sum() + (states**3).sum()
        seen = weakref.ref(states)
    kept = seen() is not None
    out.backward()
    found = {"out": out.detach(), "values": values.grad.clone()}
    found |= {name: p.grad for name, p in encoder.named_parameters()}
    return found | dict(encoder.named_buffers()), kept


@pytest.mark.parametrize("real", [None, 5])
def test_encodings_made_again_are_those_of_the_block(fuses, real):
    encoder, values = an_encoder()
    other, same = copy.deepcopy(encoder), values.detach().clone().requires_grad_()
    with real_rows(RealRows(nodes=None if real is None else torch.tensor(real))):
        ours, kept = used(encoder, values, again=True)
        theirs, _ = used(other, same, again=False)
    assert not kept
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_encodings_are_kept_where_others_say_what_is(fuses):
    encoder, values = an_encoder()
    (block,) = blocks_of(torch.nn.Sequential(encoder.block))
    asked = []

    def work(given):
        asked.append(can_recompute(block, given))
        return run_with_edges(encoder, given, 8, lambda h: h.square().sum())

    work(values)
    checkpoint(work, values, use_reentrant=False).backward()
    with torch.no_grad():
        work(values)
    encoder.eval()
    work(values)
    assert asked == [True, False, False, False, False]


def test_encodings_are_those_of_the_block_where_nothing_is_fused():
    encoder, values = an_encoder()
    states = run_with_edges(encoder, values, 8, lambda states: states)
    assert torch.equal(states, copy.deepcopy(encoder)(values, 8))


def test_encodings_hold_nothing_where_no_gradient_is_asked_for(fuses):
    encoder, values = an_encoder()

    def use(states):
        result = torch.relu(states * 2)
        return torch.sigmoid(result @ torch.ones(5, 3).double())

    result = run_with_edges(encoder, values, 8, use)
    seen = weakref.ref(result)
    del result
    assert seen() is None


def test_what_a_gradient_needs_is_not_changed_in_place(fuses):
    encoder, values = an_encoder()
    weight = torch.randn(8, 5).double().requires_grad_()
    others = []

    def use(states):
        others.append(states * 2)
        return (others[0] * weight).sum()

    out = run_with_edges(encoder, values, 8, use)
    others[0].detach().mul_(3)
    with pytest.raises(RuntimeError, match="changed in place; change a clone"):
        out.backward()


def test_encodings_that_are_changed_are_kept_as_they_are(fuses):
    encoder, values = an_encoder()
    weight = torch.ones(8, 5).double().requires_grad_()
    changed = []

    def use(states):
        changed.append(states.mul_(3))
        return (states * weight).sum()

    out = run_with_edges(encoder, values, 8, use)
    wanted = changed[0].detach().clone()
    out.backward()
    assert torch.equal(weight.grad, wanted)


@pytest.mark.parametrize("kind", ["hook", "subclass"])
def test_whoever_listens_to_an_encoder_is_heard(fuses, kind):
    class Loud(ContinuousEncoder):
        def forward(self, values, num_rows):
            heard.append(num_rows)
            return super().forward(values, num_rows)

    heard, gnn = [], gine(5)
    encoder = Loud(2, 5) if kind == "subclass" else ContinuousEncoder(2, 5)
    if kind == "hook":
        encoder.register_forward_hook(lambda module, given, out: heard.append(given[1]))
    kernel = Kernel(gnn, 5, encoder)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    kernel(
        torch.randn(3, 5), edge_index, torch.randn(3, 2), torch.zeros(3).long(), None
    )
    assert heard == [3]
