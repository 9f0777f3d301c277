"""Whether the padded forms of batches are used, and therefore computed."""

UNUSED_WINDOWS = 2
"""Padding stops after this many windows of which no padded form was used. Two windows
are assembled before the first batch is used: one is prefetched."""


class Demand:
    """Decides whether a loader pads its next window (batches assembled together).

    `TrainingStep` uses the padded form of a batch, a plain training loop does not.
    Padding costs a loader about as much time as the batches themselves.

    Args:
        always: Whether windows are padded even if no padded form is used.
    """

    def __init__(self, always: bool) -> None:
        self._always, self._unused = always, 0

    def pads_next(self) -> bool:
        """Return whether the next window is to be padded; call this once per window."""
        self._unused += 1
        return self._always or self._unused <= UNUSED_WINDOWS

    def use(self) -> None:
        """Tell that a padded form is used: the next windows are padded."""
        self._unused = 0
