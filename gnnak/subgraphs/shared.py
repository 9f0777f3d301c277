"""Subgraphs extracted on the fly, once for all layers of a model."""

import weakref

import torch
from torch import Tensor

from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.walks import RandomWalks

Extractor = EgoNets | RandomWalks


class SharedSubgraphs:
    """The subgraphs of the graph at hand, extracted once and shared by all layers.

    The graph is known by its `edge_index` tensor: the same object, not written to
    since. Nothing is kept alive: when the tensor goes, so do its subgraphs.

    Args:
        extractor: What makes the subgraphs.
    """

    def __init__(self, extractor: Extractor) -> None:
        self.extractor = extractor
        self._kept: RootedSubgraphs | None = None
        self._of: weakref.ref[Tensor] | None = None
        self._version: tuple[int, int] | None = None

    @torch.compiler.disable
    def get(
        self, edge_index: Tensor, num_nodes: int, training: bool
    ) -> RootedSubgraphs:
        """The subgraphs of this graph, extracted if they are not at hand."""
        version = (edge_index._version, num_nodes)
        same = self._of is not None and self._of() is edge_index
        if self._kept is None or not same or self._version != version:
            generator = None
            if self.extractor.random and not training:
                generator = torch.Generator(edge_index.device).manual_seed(0)
            self._kept = self.extractor(edge_index, num_nodes, generator)
            self._of = weakref.ref(edge_index, lambda _: self.forget())
            self._version = version
        return self._kept

    def forget(self) -> None:
        """Drop what is kept."""
        self._kept = self._of = self._version = None

    @torch.compiler.disable
    def begin_pass(self, *_: object) -> None:
        """Say that a forward pass begins: random subgraphs are then drawn anew.

        Takes and ignores the arguments of a PyTorch forward pre-hook.
        """
        if self.extractor.random:
            self.forget()

    def __getstate__(self) -> dict[str, Extractor]:
        return {"extractor": self.extractor}

    def __setstate__(self, state: dict[str, Extractor]) -> None:
        self.__init__(state["extractor"])  # type: ignore[misc]
