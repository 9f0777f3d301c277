"""Stop computing the padded forms of batches while nothing uses them."""

import threading

UNUSED_WINDOWS = 2
"""Padding stops when this many windows were padded since a padded form was last used.
Two, because two windows are assembled before the first batch is used: the second one is
prefetched."""


class Demand:
    """Decides whether a loader pads its next window (batches assembled together).

    `TrainingStep` uses the padded form of a batch; a plain training loop does not.
    Padding a batch takes about as long as assembling it.

    The thread that prefetches windows calls `pads_next`, while the thread that trains
    calls `use`.

    Args:
        always: Whether windows are padded even if no padded form is used.
    """

    # One lock for all objects: batches refer to a `Demand`, and an object with its own
    # lock can be neither copied nor pickled.
    _lock = threading.Lock()

    def __init__(self, always: bool) -> None:
        self._always, self._unused = always, 0

    def pads_next(self) -> bool:
        """Return whether to pad the next window; call this method once per window."""
        with self._lock:
            self._unused += 1
            return self._always or self._unused <= UNUSED_WINDOWS

    def use(self) -> None:
        """Record that a padded form is used, so that the next windows are padded."""
        with self._lock:
            self._unused = 0
