"""Split a window into batches without padding that are views of padded batches.

A window is several consecutive batches, assembled as one large batch. In a padded
batch, padding comes after the real rows, so a batch without padding is the beginning of
every tensor. Creating these views launches no kernel and allocates no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from gnnak.graphs.real import RealCounts
from gnnak.loading.index_fields import Field, Key
from gnnak.loading.items import Shape
from gnnak.loading.joint import Joint
from gnnak.loading.padding_splitter import PaddingSplitter
from gnnak.loading.splitters import Splitter
from gnnak.loading.windows import Window


class PaddedOnce(PaddingSplitter):
    """Splits a window with padding, and splits each tensor only once.

    A second call with the same tensor returns the parts of the first call.

    Args:
        window: The batches.
        shapes: The sizes to pad each batch to.
    """

    def __init__(self, window: Window, shapes: Sequence[Shape]) -> None:
        super().__init__(window, shapes)
        self._found: dict[tuple, tuple[Tensor, Sequence[Tensor]]] = {}
        self._joint: tuple[dict[Any, Tensor], Joint] | None = None

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return, for each batch, its rows of `value`, followed by padding rows."""
        split, given = super().rows, (axis, refers_to, padding)
        return self._once(value, ("rows", *given), lambda: split(value, *given))

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return, for each batch, its edges, followed by self loops as padding."""
        split, given = super().edges, (axis, refers_to)
        return self._once(value, ("edges", *given), lambda: split(value, *given))

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer, padded with empty groups."""
        split, given = super().pointers, (keys, rows)
        return self._once(value, ("pointers", *given), lambda: split(value, *given))

    def joint(self, fields: Mapping[Key, Field]) -> Joint[Key]:
        """Copy many tensors and their padding into one tensor, at the first call."""
        values = {key: field.value for key, field in fields.items()}
        if self._joint is None:
            self._joint = values, super().joint(fields)
        before, joint = self._joint
        assert before.keys() == values.keys()
        assert all(values[key] is value for key, value in before.items())
        return joint

    def _once(
        self, value: Tensor, how: tuple, split: Callable[[], Sequence[Tensor]]
    ) -> Sequence[Tensor]:
        """Return the parts of a tensor; call `split` for them at first use.

        Args:
            value: The tensor.
            how: The name of the method and its other arguments.
            split: Splits the tensor.
        """
        key = (id(value), *how)
        if key not in self._found:
            # The tensor is stored, too, so that no other tensor gets its `id`.
            self._found[key] = (value, split())
        return self._found[key][1]


class TrimmingSplitter(Splitter):
    """Splits a window without padding: returns views of the padded batches.

    Args:
        window: The batches.
        padded: Splits the same window, with padding.
    """

    def __init__(self, window: Window, padded: PaddedOnce) -> None:
        self.window, self.padded = window, padded

    def sizes(self, axis: str) -> list[int]:
        """Return how many rows each batch has on an axis, such as "nodes"."""
        return self.window.counts(axis)[: len(self.padded.shapes)]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return, for each batch, its rows of `value`; arguments as in `Splitter`."""
        parts = self.padded.rows(value, axis, refers_to, padding)
        return [p[:n] for p, n in zip(parts, self.sizes(axis), strict=True)]

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return, for each batch, its edges; arguments as in `Splitter`."""
        parts = self.padded.edges(value, axis, refers_to)
        return [p[:, :n] for p, n in zip(parts, self.sizes(axis), strict=True)]

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer; arguments as in `Splitter`."""
        parts = self.padded.pointers(value, keys, rows)
        return [p[: n + 1] for p, n in zip(parts, self.sizes(keys), strict=True)]

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split many int64 tensors by batch; the parts are views of the padded ones."""
        return self.padded.joint(fields).trimmed()

    def real(self) -> Sequence[RealCounts | None]:
        """Return None for each batch, as no batch is padded."""
        return [None] * len(self.padded.shapes)

    def padded_to(self) -> Sequence[Shape | None]:
        """Return None for each batch, as no batch is padded."""
        return [None] * len(self.padded.shapes)
