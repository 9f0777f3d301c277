"""Stop the program on Ctrl-C (SIGINT) and SIGTERM with one line of explanation."""

import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REPEAT_SECONDS = 1.0
"""A repeated signal within this time is ignored: `torchrun` sends each signal twice."""
RESEND_SECONDS = 0.2
"""Seconds until a signal is sent again, if a destructor discarded its `Stopped`."""


class Stopped(BaseException):
    """Raised when a signal stops the program; not caught by `except Exception`."""

    def __init__(self, number: int, advice: str = "") -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}{advice and '; '}{advice}.")
        self.number = number
        self.exit_code = 128 + number


class StopRequest:
    """Handles the signals of `stoppable`: raises `Stopped` at once or later."""

    def __init__(self, advice: str = "") -> None:
        self.advice, self.deferred = advice, False
        self.number: int | None = None
        self._time = 0.0

    def handle(self, number: int, _: FrameType | None) -> None:
        """Raise `Stopped`; if signals are deferred, only record the first signal.

        Later signals are ignored for `REPEAT_SECONDS`; then they raise `Stopped`.
        """
        now = time.monotonic()
        if self.deferred and self.number is None:
            self.number, self._time = number, now
        if self.number is not None and now - self._time < REPEAT_SECONDS:
            return
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self.deferred = False
        raise Stopped(number, self.advice)

    def release(self) -> None:
        """Stop deferring signals; raise `Stopped` if one was recorded."""
        self.deferred = False
        if self.number is not None:
            raise Stopped(self.number, self.advice)


@contextmanager
def stoppable(advice: str = "") -> Iterator[StopRequest]:
    """Context manager: raise `Stopped` on SIGINT (Ctrl-C) or SIGTERM.

    A second signal ends the program. A signal that the program ignores stays ignored,
    as in worker processes. Outside the main thread, the context manager does nothing.
    """
    request = StopRequest(advice)
    with _handled_by(request.handle) as handled:
        if not handled:
            yield request
            return
        before = sys.unraisablehook

        def send_later(number: int) -> None:
            time.sleep(RESEND_SECONDS)
            os.kill(os.getpid(), number)

        def resend(lost: Any) -> None:
            """Send the signal again if Python discarded `Stopped` in a destructor."""
            if not isinstance(lost.exc_value, Stopped):
                before(lost)
                return
            signal.signal(lost.exc_value.number, request.handle)
            # `threading.Timer.start` would wait for its thread. On a busy machine, the
            # signal could then arrive before this function returns, and be lost again.
            start_new_thread(send_later, (lost.exc_value.number,))

        sys.unraisablehook = resend
        try:
            yield request
        finally:
            sys.unraisablehook = before


@contextmanager
def stoppable_at_once() -> Iterator[None]:
    """Context manager: SIGINT and SIGTERM print a message and end the process at once.

    For imports of large libraries, whose native code may crash if a handler raises.
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
    """Context manager: `handler` handles `SIGNALS`; yield False if it handles none."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handled = [number for number in SIGNALS if before[number] != signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread() or not handled:
        yield False
        return
    for number in handled:
        signal.signal(number, handler)
    try:
        yield True
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
