"""Subgraphs extracted and sampled on the fly, once for all layers of a model."""

import weakref

import torch
from torch import Tensor

from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.rooted import RootedSubgraphs


class SharedSubgraphs:
    """The subgraphs of the graph at hand, shared by all layers of one forward pass.

    The graph is known by its `edge_index` tensor: the same object, not written to
    since. While it lives, its egonets are kept across passes too, as is what does not
    change in SubgraphDrop; a new choice of roots is drawn every pass in training.

    Args:
        extractor: What makes the subgraphs.
        drop: Which of them are used in training; None = all. Evaluation uses all.
    """

    def __init__(self, extractor: Extractor, drop: SubgraphDrop | None = None) -> None:
        self.extractor = extractor
        self.drop = drop
        self.forget()

    def forget(self) -> None:
        """Drop all that is kept."""
        self._of: weakref.ref[Tensor] | None = None
        self._version: tuple[object, ...] | None = None
        self._full: RootedSubgraphs | None = None
        self._plan: Plan | None = None
        self._drawn: RootedSubgraphs | None = None

    @torch.compiler.disable
    def begin_pass(self, *_: object) -> None:
        """Say that a forward pass begins: whatever is random is then drawn anew.

        Takes and ignores the arguments of a PyTorch forward pre-hook.
        """
        self._drawn = None
        if self.extractor.random:
            self.forget()

    @torch.compiler.disable
    def get(
        self,
        edge_index: Tensor,
        num_nodes: int,
        training: bool,
        generator: torch.Generator | None = None,
    ) -> RootedSubgraphs:
        """The subgraphs of this graph in this pass, made if they are not at hand.

        Args:
            edge_index: The batch's edges, [2, e].
            num_nodes: Number of nodes, n.
            training: Whether subgraphs are dropped, and random ones drawn from
                `generator`; in evaluation they come from a fixed seed.
            generator: Source of randomness; PyTorch's own if not given.
        """
        full = self._all_of(edge_index, num_nodes, training, generator)
        if self.drop is None or not training:
            return full
        if self._plan is None:
            self._plan = self.drop.plan(full, edge_index)
        if self._drawn is None:
            self._drawn = self.drop(full, edge_index, generator, self._plan)
        return self._drawn

    def _all_of(
        self,
        edge_index: Tensor,
        num_nodes: int,
        training: bool,
        generator: torch.Generator | None,
    ) -> RootedSubgraphs:
        written = None if edge_index.is_inference() else edge_index._version
        drawn_in = training if self.extractor.random else None
        version = (written, num_nodes, drawn_in)
        same = self._of is not None and self._of() is edge_index
        if self._full is None or not same or self._version != version:
            self.forget()
            if self.extractor.random and not training:
                generator = torch.Generator(edge_index.device).manual_seed(0)
            self._full = self.extractor(edge_index, num_nodes, generator)
            self._of = weakref.ref(edge_index, lambda _: self.forget())
            self._version = version
        return self._full

    def __getstate__(self) -> tuple[Extractor, SubgraphDrop | None]:
        return self.extractor, self.drop

    def __setstate__(self, state: tuple[Extractor, SubgraphDrop | None]) -> None:
        self.extractor, self.drop = state
        self.forget()
