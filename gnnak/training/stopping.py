"""Ctrl-C and SIGTERM, answered with a sentence."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gnnak.training.workers import is_worker

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """The program was asked to stop.

    Args:
        number: The signal.
        advice: What may be done next.
    """

    def __init__(self, number: int, advice: str = "") -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}{advice and '; '}{advice}.")
        self.exit_code = 128 + number


@contextmanager
def stoppable(advice: str = "") -> Iterator[None]:
    """Inside, SIGINT and SIGTERM raise `Stopped`; the second one is deadly.

    Workers, which end with the main process, go on as they are, and so do threads.

    Args:
        advice: What may be done next, for the end of the sentence.
    """
    if threading.current_thread() is not threading.main_thread() or is_worker():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def stop(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise Stopped(number, advice)

    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
