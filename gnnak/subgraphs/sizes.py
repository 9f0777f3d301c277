"""Estimate how many node copies and edge copies the subgraphs of one graph have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from time import monotonic
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import SizeError
from gnnak.subgraphs.copy_limit import Limited
from gnnak.subgraphs.rooted import RootedSubgraphs

CHUNK = 1 << 22
"""Largest number of copies that are extracted at a time; larger subgraphs count as if
they had so many."""


class Sizes(NamedTuple):
    """Estimated numbers of copies of all subgraphs of a graph."""

    copies: float
    edge_copies: float
    roots: int = 0
    """Number of random roots from whose subgraphs the numbers were estimated."""

    @property
    def total(self) -> float:
        """Node copies and edge copies together."""
        return self.copies + self.edge_copies

    def times(self, factor: float) -> Sizes:
        """Return the sizes of a part, or of several graphs of this size."""
        return Sizes(self.copies * factor, self.edge_copies * factor, self.roots)


def can_choose_roots(extractor: Callable[..., RootedSubgraphs]) -> bool:
    """Return whether an extractor can extract the subgraphs of some roots only."""
    return "roots" in signature(extractor).parameters


def estimated_sizes(
    extractor: Callable[..., RootedSubgraphs],
    edge_index: Tensor,
    num_nodes: int,
    most: int = 1000,
    seconds: float | None = None,
) -> Sizes:
    """Estimate the number of copies from random roots; arguments as in `sampled_sizes`.

    >>> from gnnak.subgraphs.egonets import EgoNets
    >>> ring = torch.stack([torch.arange(6), torch.arange(1, 7) % 6])
    >>> estimated_sizes(EgoNets(1), ring, 6)
    Sizes(copies=12.0, edge_copies=6.0, roots=6)
    """
    if isinstance(extractor, Limited):
        extractor = replace(extractor, copy_limit=CHUNK)
    random = torch.Generator(edge_index.device).manual_seed(0)

    def measure(roots: Tensor) -> tuple[int, int]:
        found = extractor(edge_index, num_nodes, random, roots=roots)
        return found.num_copies, found.num_edge_copies

    return sampled_sizes(measure, num_nodes, edge_index.device, most, seconds)


def sampled_sizes(
    measure: Callable[[Tensor], tuple[int, int]],
    num_nodes: int,
    device: torch.device,
    most: int,
    seconds: float | None = None,
) -> Sizes:
    """Estimate the number of copies from at most `most` random roots.

    `measure` returns the numbers of node copies and edge copies of the subgraphs of
    some roots, or raises `SizeError` if there are more than `CHUNK`. If `seconds` is
    not None, no further roots are added after half of this time.
    """
    began, generator = monotonic(), torch.Generator().manual_seed(0)
    order = torch.randperm(num_nodes, generator=generator, device="cpu")[:most]
    order = order.to(device)
    copies = edge_copies = done = 0
    count = 1
    while done < order.numel():
        roots = order[done : done + count]
        try:
            found, edges = measure(roots)
        except SizeError:
            if count > 1:
                count = 1
                continue
            found, edges = 0, CHUNK
        done += roots.numel()
        copies, edge_copies = copies + found, edge_copies + edges
        if seconds is not None and monotonic() - began > seconds / 2:
            break
        # As many roots as are expected to have half of `CHUNK` copies.
        mean = max((copies + edge_copies) / done, 1)
        count = int(min(max(CHUNK / 2 / mean, 1), 2 * count))
    return Sizes(copies, edge_copies, done).times(num_nodes / max(done, 1))
