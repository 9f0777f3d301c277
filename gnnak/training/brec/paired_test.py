r"""The paired test of BREC: do the embeddings of two graphs differ significantly?

Both graphs are relabelled $q$ times, and row $i$ of $D$, [q, d], is the difference of
the embeddings of the $i$-th relabelled graphs. With the mean $\bar D$ and the
covariance $S$ of the rows, Hotelling's test compares $q\,\bar D^T S^{-1} \bar D$ with
$\frac{(q-1)d}{q-d} F_{d,q-d}(0.95)$, which is 72.34 for q = 32 and d = 16.

The released code of BREC compares $\bar D^T S^+ \bar D$ with this threshold, without
the factor $q$, so it is 32 times as strict. Both values are reported here.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import OptionError

THRESHOLD = 72.34
"""Embeddings differ significantly if the value of the test is larger; for 32
relabellings and 16 channels."""
RIDGE = 1e-8
"""Multiple of the identity that is added to a singular covariance, relative to the mean
square of the embeddings."""
ROUNDING = 1e-6
"""A mean difference below this multiple of the size of the embeddings, in float64,
counts as a rounding error."""
CLOSE = 1e-6
"""Two values of the test are close if they differ by less than this number."""


class PairedTest(NamedTuple):
    """The result of the paired test for the embeddings of two graphs."""

    released: float
    """The value of the test as in BREC's released code: without the factor q, and with
    the pseudo-inverse of the covariance."""
    corrected: float
    """The value with the factor q. If the covariance is singular, a small multiple of
    the identity is added to it. 0 if the graphs' mean embeddings are equal up to
    rounding."""
    singular: bool
    """Whether the covariance is singular: for example because the embeddings do not
    depend on the labelling at all. Its pseudo-inverse then ignores directions in which
    the embeddings differ."""


def paired_test(first: Tensor, second: Tensor) -> PairedTest:
    """Test whether the embeddings of two graphs differ.

    Args:
        first: Embeddings of q relabellings of one graph, [q, d].
        second: Embeddings of q relabellings of the other graph, [q, d].

    Embeddings that differ, but not at all between relabellings, have the covariance 0;
    the released test misses them:

    >>> paired_test(torch.zeros(32, 16), torch.ones(32, 16)).released
    0.0
    >>> paired_test(torch.zeros(32, 16), torch.ones(32, 16)).corrected > THRESHOLD
    True
    """
    if first.shape != second.shape or first.dim() != 2 or first.size(0) < 2:
        raise OptionError(
            f"the embeddings have shapes {list(first.shape)} and {list(second.shape)}; "
            "give two equal shapes [q, d] with q of at least 2."
        )
    first, second = first.detach().double().cpu(), second.detach().double().cpu()
    difference = first - second
    mean, covariance = difference.mean(dim=0), torch.cov(difference.T)
    covariance = covariance.view(mean.numel(), mean.numel())
    released = float(mean @ torch.linalg.pinv(covariance) @ mean)
    singular = int(torch.linalg.matrix_rank(covariance, hermitian=True)) < mean.numel()
    square = float(torch.cat([first, second]).square().mean())
    if float(mean.abs().max()) <= ROUNDING * square**0.5:
        return PairedTest(released, 0.0, singular)
    if singular:
        covariance = covariance + RIDGE * square * torch.eye(mean.numel()).double()
    value = mean @ torch.linalg.solve(covariance, mean)
    return PairedTest(released, difference.size(0) * float(value), singular)


class Verdict(NamedTuple):
    """Whether a network distinguishes a pair, by one variant of the paired test."""

    distinguished: bool
    """Whether the test of the two graphs is significant, and not close to that of
    relabellings of one and the same graph."""
    reliable: bool
    """Whether relabellings of one and the same graph are not distinguished."""


def verdict(value: float, same_graph: float) -> Verdict:
    """Decide from the values of the paired test whether a pair is distinguished.

    Args:
        value: The value for the two graphs of the pair.
        same_graph: The value for two sets of relabellings of one and the same graph.
    """
    apart = value > THRESHOLD and abs(value - same_graph) > CLOSE
    return Verdict(apart, same_graph < THRESHOLD)
