"""Random inputs for the kernels, and named corner cases."""

import torch
from torch import nn

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.records import Edges, NormConstants
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.groups import Groups, group

WIDTHS = [1, 5, 16, 64, 65, 144, 300]
GROUPS = {
    "no rows": [0, 0, 0],
    "one row": [1],
    "no group": [],
    "empty groups": [0, 2, 0, 0, 3],
    "empty groups at the end": [2, 1, 0, 0],
    "more groups than a tile": [1, 0, 2] * 6,
    "a group longer than a tile": [2, 70, 0, 1],
}
"""By name, the number of rows of each group."""


def assert_same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def assert_agree(fast, name, *arguments):
    """Assert that a Triton kernel and the plain one return the same, also for None."""
    found, wanted = (getattr(kernels, name)(*arguments) for kernels in (fast, plain))
    assert_same(found, wanted)


def rows(count, width, strided=False):
    """Return random rows, [count, width]; strided: a column slice of a wider tensor."""
    if not strided:
        return torch.randn(count, width).double()
    return torch.randn(count, 2 * width + 3).double()[:, 2 : width + 2]


def groups_of(sizes, shuffled, padding=0):
    """Return groups of these sizes and the group of each row; padding is in none."""
    key = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes).long())
    if shuffled:
        key = key[torch.randperm(len(key))]
    found = group(key, len(sizes), in_order=not shuffled)
    padding_rows = torch.arange(len(key), len(key) + padding)
    order = None if found.order is None else torch.cat([found.order, padding_rows])
    key = torch.cat([key, torch.full((padding,), max(len(sizes) - 1, 0))])
    return Groups(found.ptr, order), key


def norm_of(width, training=True, momentum=0.1):
    """Return a batch norm with random weights and running statistics."""
    norm = BatchNorm(width, momentum=momentum).double().train(training)
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(tensor)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return norm


def constants(h, of_batch=True, real=None):
    """Return random constants of a norm for rows [m, c]."""
    scale, shift, mean = torch.randn(3, h.size(1)).double()
    rstd = torch.rand(h.size(1)).double() + 0.5
    return NormConstants(scale, shift, mean, rstd, of_batch, real)


def edges_of(copies, edge_copies, edges):
    """Return random edge copies by target; none is of the last node copy or edge."""
    source = torch.randint(max(copies - 1, 1), (edge_copies,))
    target = torch.randint(max(copies - 1, 1), (edge_copies,)).sort().values
    edge = torch.randint(max(edges - 1, 1), (edge_copies,))
    by_target, by_source = group(target, copies, in_order=True), group(source, copies)
    return Edges(source, target, edge, by_target, by_source, group(edge, edges))
