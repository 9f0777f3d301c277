"""Stop the program on Ctrl-C (SIGINT) and SIGTERM with one line of explanation."""

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
RESEND_SECONDS = 0.05
"""Seconds after which a signal is sent again if its exception was discarded."""


class Stopped(BaseException):
    """Raised when a signal asks the program to stop.

    Not an `Exception`, so that code which handles failures does not catch it.

    Args:
        number: The number of the signal.
        advice: How the user can continue, the end of the message.
    """

    def __init__(self, number: int, advice: str = "") -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}{advice and '; '}{advice}.")
        self.number = number
        self.exit_code = 128 + number


@contextmanager
def stoppable(advice: str = "") -> Iterator[None]:
    """Inside, SIGINT and SIGTERM raise `Stopped`; a second signal ends the process.

    Does nothing in worker processes, which end with the main process, and in threads
    other than the main one, where Python allows no signal handlers.

    Args:
        advice: How the user can continue, the end of the message.
    """

    def stop(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise Stopped(number, advice)

    with _handled_by(stop) as handled:
        if not handled:
            yield
            return
        before = sys.unraisablehook

        def resend(lost: Any) -> None:
            """Send the signal again if a finaliser (`__del__`) discarded `Stopped`."""
            if not isinstance(lost.exc_value, Stopped):
                before(lost)
                return
            signal.signal(lost.exc_value.number, stop)
            again = (os.getpid(), lost.exc_value.number)
            threading.Timer(RESEND_SECONDS, os.kill, again).start()

        sys.unraisablehook = resend
        try:
            yield
        finally:
            sys.unraisablehook = before


@contextmanager
def stoppable_at_once() -> Iterator[None]:
    """Inside, SIGINT and SIGTERM print the message and end the process at once.

    For the import of large libraries, before any result could be lost: native code
    that calls back into Python crashes on an exception or ignores it.
    """

    def leave(number: int, _: FrameType | None) -> None:
        stopped = Stopped(number)
        sys.stderr.write(f"error: {stopped}\n")
        sys.stderr.flush()
        os._exit(stopped.exit_code)

    with _handled_by(leave):
        yield


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[bool]:
    """Install a handler of both signals inside; restore the earlier ones afterwards.

    Yields:
        Whether it was installed: not in worker processes, nor in other threads.
    """
    if threading.current_thread() is not threading.main_thread() or is_worker():
        yield False
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, handler)
    try:
        yield True
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
