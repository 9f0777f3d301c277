"""Encodings that are made again: the same values and gradients, and nothing is kept."""

import copy
import weakref

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.fused.encoder import can_make_again
from gnnak.nn.fused.parts import blocks_of
from gnnak.nn.padding import real_rows


def an_encoder():
    """An encoder of two columns that has seen something, and rows for it."""
    torch.manual_seed(0)
    encoder = ContinuousEncoder(2, 5).double()
    encoder(torch.randn(9, 2).double(), 9)
    return encoder, torch.randn(8, 2).double().requires_grad_()


def used(encoder, values, again):
    """All that comes of using encodings twice; whether they were kept meanwhile."""
    if again:
        with encoder.states(values, 8) as states:
            out = (states * states).sum() + (states**3).sum()
        seen = weakref.ref(states)
        del states
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
    counts = {} if real is None else {8: torch.tensor(real)}
    with real_rows(counts):
        ours, kept = used(encoder, values, again=True)
        theirs, _ = used(other, same, again=False)
    assert not kept
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_encodings_are_kept_where_others_say_what_is(fuses):
    encoder, values = an_encoder()
    (block,) = blocks_of(torch.nn.Sequential(encoder.block))
    asked = []

    def work(given):
        asked.append(can_make_again(block, given))
        with encoder.states(given, 8) as states:
            return states.square().sum()

    work(values)
    checkpoint(work, values, use_reentrant=False).backward()
    with torch.no_grad():
        work(values)
    encoder.eval()
    work(values)
    assert asked == [True, False, False, False, False]


def test_encodings_are_those_of_the_block_where_nothing_is_fused():
    encoder, values = an_encoder()
    with encoder.states(values, 8) as states:
        assert torch.equal(states, copy.deepcopy(encoder)(values, 8))
