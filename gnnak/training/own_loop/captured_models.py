"""The captured models of a `TrainingStep`, for several loaders and kinds of batches."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gnnak.loading.items import Item

MOST_CAPTURED = 4
"""Largest number of captured models in memory. There is one for each loader, and for
each set of field names, widths and dtypes of its batches."""


class CapturedModel(NamedTuple):
    """A model whose calls are replays, and what is known about its outputs."""

    run: Callable[[Item], Any]
    """Returns the outputs for a padded batch, with padding rows."""
    axes: list[str | None]
    """The axis of the rows of each output; see `axes_of`."""


class CapturedModels(dict[tuple, CapturedModel]):
    """Captured models by the loader and the fields of its batches, oldest first."""

    def add(self, key: tuple, captured: CapturedModel) -> None:
        """Add a captured model; if there are too many, discard the oldest."""
        if len(self) == MOST_CAPTURED:
            _close(self.pop(next(iter(self))))
        self[key] = captured

    def close(self) -> None:
        """Discard all captured models, and free their memory."""
        while self:
            _close(self.popitem()[1])


def _close(captured: CapturedModel) -> None:
    """Free the memory of a model if it is captured."""
    if hasattr(captured.run, "close"):
        captured.run.close()
