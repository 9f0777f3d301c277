"""Stop computing the padded forms of batches while nothing uses them."""

import threading

FIRST_WINDOWS = 2
"""Number of windows that are padded before a padded form is first used. Two windows are
assembled before the first batch is used: the second one is prefetched."""
UNUSED_EPOCHS = 2
"""Padding stops when more epochs than this have begun since a padded form was last
used. Two, so that a pass without a `TrainingStep`, such as an evaluation, may come
between two epochs of training."""


class Demand:
    """Decides whether a loader pads its next window (batches assembled together).

    `TrainingStep` uses the padded form of a batch; a plain training loop does not.
    Padding a batch takes about as long as assembling it. A batch that was assembled
    without padding is padded when its padded form is needed, which takes longer than
    padding all batches of a window at once.

    The thread that prefetches windows calls `begin_epoch` and `pads_next`, while the
    thread that trains calls `use`.

    Args:
        always: Whether windows are padded even if no padded form is used.
    """

    # One lock for all objects: batches refer to a `Demand`, and an object with its own
    # lock can be neither copied nor pickled.
    _lock = threading.Lock()

    def __init__(self, always: bool) -> None:
        self._always = always
        # Number of windows before the first use of a padded form.
        self._windows = 0
        # Number of epochs begun since the last use; None before the first use.
        self._unused: int | None = None

    def begin_epoch(self) -> None:
        """Record that the windows of an epoch are going to be assembled."""
        with self._lock:
            if self._unused is not None:
                self._unused += 1

    def pads_next(self) -> bool:
        """Return whether to pad the next window; call this method once per window."""
        with self._lock:
            if self._always:
                return True
            if self._unused is not None:
                return self._unused <= UNUSED_EPOCHS
            self._windows += 1
            return self._windows <= FIRST_WINDOWS

    def use(self) -> None:
        """Record that a padded form is used, so that the next windows are padded."""
        with self._lock:
            self._unused = 0
