"""`WithEncodings`: an extractor that also computes structural encodings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gnnak.errors import OptionError
from gnnak.subgraphs.encodings import mark_extracted
from gnnak.subgraphs.extractors import Extractor, check_extractor, extract
from gnnak.subgraphs.pairs import closed_walks, rrwp
from gnnak.subgraphs.resistances import resistance
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_choice, check_count

StructuralName = Literal["rrwp", "resistance", "closed-walks"]
FUNCTIONS = {"rrwp": rrwp, "resistance": resistance, "closed-walks": closed_walks}
"""The functions that compute structural encodings, by name."""


@dataclass(frozen=True)
class StructuralEncoding:
    """A structural encoding by name, with its option.

    >>> StructuralEncoding("rrwp", num_steps=8)
    StructuralEncoding(name='rrwp', num_steps=8)
    """

    name: StructuralName
    """The function that computes the encoding: `rrwp`, `resistance` or `closed_walks`
    of `gnnak.subgraphs`."""
    num_steps: int | None = None
    """Number of steps of the walks; None for `resistance`, which has no steps."""

    def __post_init__(self) -> None:
        check_choice("a structural encoding", self.name, FUNCTIONS)
        if self.name != "resistance":
            check_count("num_steps", self.num_steps, least=1)
        elif self.num_steps is not None:
            raise OptionError(
                f"num_steps is {self.num_steps}, but resistance distances have no "
                "steps; leave num_steps out."
            )

    def __call__(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return the encoding of all node copies or nodes; cached after first use.

        Args:
            subgraphs: The rooted subgraphs.
            edge_index: Directed edges, [2, e].
            batch: Index of the graph that each node is in, [n], sorted; None = all
                nodes are in one graph.
        """
        options = {} if self.num_steps is None else {"num_steps": self.num_steps}
        return FUNCTIONS[self.name](subgraphs, edge_index, batch, **options)


@dataclass(frozen=True)
class WithEncodings:
    """Extract rooted subgraphs, and compute structural encodings of them.

    Models find the encodings in the subgraphs and do not compute them again. Loaders
    that cache the subgraphs of a data set also cache the encodings. On a GPU, a model
    that computes such encodings in its forward pass synchronises with the device, so
    its training steps can be captured as CUDA graphs only if a loader with this
    extractor has computed the encodings before.

    >>> from gnnak import EgoNets
    >>> extractor = WithEncodings(EgoNets(1), (StructuralEncoding("resistance"),))
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> extractor(path, 3)
    RootedSubgraphs(subgraphs=3, node_copies=7, edge_copies=8, device='cpu')
    """

    extractor: Extractor
    """Extracts the subgraphs."""
    encodings: tuple[StructuralEncoding, ...]
    """The structural encodings to compute."""

    reads_batch = True
    """Always True: encodings are computed per graph."""
    is_checked = True
    """Always True: `extract` has checked the subgraphs when they were extracted."""

    def __post_init__(self) -> None:
        check_extractor("extractor", self.extractor)
        object.__setattr__(self, "encodings", tuple(self.encodings))
        for encoding in self.encodings:
            if not isinstance(encoding, StructuralEncoding):
                raise OptionError(
                    f"encodings has {encoding!r}; give StructuralEncoding objects, "
                    "such as StructuralEncoding('resistance')."
                )

    @property
    def random(self) -> bool:
        """Whether two calls on the same graph can return different subgraphs."""
        return self.extractor.random

    @property
    def max_hops(self) -> int:
        """The largest possible distance of a node to the root of its subgraph."""
        return self.extractor.max_hops

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        batch: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Return one rooted subgraph per node; arguments as in `extract`."""
        found = extract(self.extractor, edge_index, num_nodes, generator, batch)
        for encoding in self.encodings:
            encoding(found, edge_index, batch)
        mark_extracted(found)
        return found


def with_encodings(
    extractor: Extractor, encodings: tuple[StructuralEncoding, ...]
) -> Extractor:
    """Return an extractor that also computes the given encodings.

    If `encodings` is empty, this is `extractor` itself.
    """
    return WithEncodings(extractor, encodings) if encodings else extractor


def without_encodings(extractor: Extractor) -> Extractor:
    """Return the extractor of the subgraphs alone, without structural encodings."""
    while isinstance(extractor, WithEncodings):
        extractor = extractor.extractor
    return extractor
