"""BatchNorms of two processes compute what one computes on the rows of both."""

from contextlib import nullcontext

import pytest
import torch

from gnnak.backend import PLAIN, use_backend
from gnnak.nn.norm import (
    BatchNorm,
    NormReluDropout,
    RealRows,
    batch_constants,
    real_rows,
)
from tests.fast.backends import fused_everywhere
from tests.fast.layers.fused_layers import randomize
from tests.two_processes import results_of

ROWS = {
    "equal": (4, 4),
    "unequal": (7, 2),
    "one row here": (1, 5),
    "no row here": (0, 5),
    "one row in all": (1, 0),
    "no row": (0, 0),
}
"""By name, the number of rows in each process."""
PADDING = 3
CASES = [
    (sizes, padded, fused)
    for sizes in ROWS.values()
    for padded in (False, True)
    for fused in (False, True)
]


def outcome(x, weights, padded, fused, dtype=torch.double):
    """Return output, gradients and statistics of a norm and of norm, ReLU and sum."""
    torch.manual_seed(1)
    norm, block = BatchNorm(3).to(dtype), NormReluDropout(3).to(dtype)
    randomize(norm)
    randomize(block)
    rows = torch.tensor(x.size(0))
    more = PADDING * padded
    x = torch.cat([x, torch.full((more, 3), 9.0)]).to(dtype).requires_grad_()
    weights = torch.cat([weights, torch.zeros(more, 3)]).to(dtype)
    used = []
    backend = fused_everywhere(used) if fused else PLAIN
    with use_backend(backend), real_rows(RealRows(rows)) if padded else nullcontext():
        out = block.added_to(x, norm(x))
        (out * weights).sum().backward()
    real = slice(0, int(rows))
    own = [out[real].detach(), x.grad[real], x.grad[int(rows) :].abs().sum()]
    parameters = [*norm.parameters(), *block.parameters()]
    grads = [weight.grad for weight in parameters]
    return own, grads, [*norm.buffers(), *block.buffers()], used


def given(sizes):
    torch.manual_seed(sum(sizes))
    x, weights = torch.randn(2, sum(sizes), 3, dtype=torch.double)
    return x.split(sizes), weights.split(sizes)


def both(rank):
    return [
        outcome(*(part[rank] for part in given(sizes)), padded, fused)
        for sizes, padded, fused in CASES
    ]


@pytest.mark.slow
def test_norms_of_two_processes_equal_those_of_one(tmp_path):
    found = results_of(both, tmp_path)
    exact = {"rtol": 1e-10, "atol": 1e-10}
    for (sizes, _, fused), here, there in zip(CASES, *found, strict=True):
        joined = [torch.cat(part) for part in given(sizes)]
        own, grads, buffers, _ = outcome(*joined, False, False)
        for place in (0, 1):
            mine = torch.cat([here[0][place], there[0][place]])
            torch.testing.assert_close(mine, own[place], **exact)
        assert here[0][2] == there[0][2] == 0
        sums = [a + b for a, b in zip(here[1], there[1], strict=True)]
        torch.testing.assert_close(sums, grads, **exact)
        for each in (here, there):
            torch.testing.assert_close(each[2], buffers, **exact)
            assert set(each[3]) == ({"over_rows", "added_to"} if fused else set())


def mixed(rank):
    """Fuse the norms of one process only."""
    x, weights = (part[rank] for part in given((4, 3)))
    return outcome(x, weights, padded=bool(rank), fused=bool(rank))[:3]


@pytest.mark.slow
def test_a_process_with_fused_norms_and_one_without_train_together(tmp_path):
    here, there = results_of(mixed, tmp_path)
    own, grads, buffers, _ = outcome(*map(torch.cat, given((4, 3))), False, False)
    joined = [torch.cat([here[0][place], there[0][place]]) for place in (0, 1)]
    torch.testing.assert_close(joined, own[:2])
    sums = [a + b for a, b in zip(here[1], there[1], strict=True)]
    torch.testing.assert_close(sums, grads)
    torch.testing.assert_close([here[2], there[2]], [buffers, buffers])


def test_statistics_without_momentum_are_averages_over_all_batches():
    norm, wanted = BatchNorm(3, momentum=None), torch.nn.BatchNorm1d(3, momentum=None)
    for rows in (4, 1, 5):
        x = torch.randn(rows, 3)
        batch_constants(norm, x, None, synced=False)
        if rows > 1:
            wanted(x)
    torch.testing.assert_close(norm.state_dict(), wanted.state_dict())
