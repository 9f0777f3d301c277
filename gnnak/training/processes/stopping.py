"""Ctrl-C and SIGTERM, answered with a sentence."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gnnak.training.processes.workers import is_worker

SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN_AFTER = 0.05
"""Seconds after which a signal that was lost is sent again."""


class Stopped(BaseException):
    """The program was asked to stop.

    Args:
        number: The signal.
        advice: What may be done next.
    """

    def __init__(self, number: int, advice: str = "") -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}{advice and '; '}{advice}.")
        self.number = number
        self.exit_code = 128 + number


@contextmanager
def stoppable(advice: str = "") -> Iterator[None]:
    """Inside, SIGINT and SIGTERM raise `Stopped`; the second one is deadly.

    Workers, which end with the main process, go on as they are, and so do threads.

    Args:
        advice: What may be done next, for the end of the sentence.
    """

    def stop(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise Stopped(number, advice)

    with _answered_by(stop) as answered:
        if not answered:
            yield
            return
        before = sys.unraisablehook

        def hear(lost: Any) -> None:
            """Ask again where the exception fell into a finaliser, which drops it."""
            if not isinstance(lost.exc_value, Stopped):
                before(lost)
                return
            signal.signal(lost.exc_value.number, stop)
            again = (os.getpid(), lost.exc_value.number)
            threading.Timer(AGAIN_AFTER, os.kill, again).start()

        sys.unraisablehook = hear
        try:
            yield
        finally:
            sys.unraisablehook = before


@contextmanager
def stoppable_at_once() -> Iterator[None]:
    """Inside, SIGINT and SIGTERM end the program at once, with their sentence.

    Nothing is lost while libraries are loaded, and their native code, which may call
    back into Python, does not live through an exception or swallows it.
    """

    def leave(number: int, _: FrameType | None) -> None:
        stopped = Stopped(number)
        sys.stderr.write(f"error: {stopped}\n")
        sys.stderr.flush()
        os._exit(stopped.exit_code)

    with _answered_by(leave):
        yield


@contextmanager
def _answered_by(answer: Callable[[int, FrameType | None], None]) -> Iterator[bool]:
    """Inside, signals are answered so: True; not in workers, nor in threads: False."""
    if threading.current_thread() is not threading.main_thread() or is_worker():
        yield False
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, answer)
    try:
        yield True
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
