import os
import signal
import sys
import time
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from gnnak.training.processes import stopping
from gnnak.training.processes.stopping import Stopped, stoppable


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stoppable_raises_an_exception_that_names_the_signal(number):
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stop, stoppable("go on with --resume"):
        os.kill(os.getpid(), number)
    assert str(stop.value) == f"stopped by {number.name}; go on with --resume."
    assert stop.value.exit_code == 128 + number
    assert signal.getsignal(number) == before


def test_stoppable_restores_default_handlers_after_one_signal():
    left = []

    @contextmanager
    def watched():
        try:
            yield
        finally:
            left.extend(map(signal.getsignal, (signal.SIGINT, signal.SIGTERM)))

    with pytest.raises(Stopped, match=r"by SIGINT\.$"), stoppable(), watched():
        os.kill(os.getpid(), signal.SIGINT)
    assert left == [signal.SIG_DFL, signal.SIG_DFL]


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_a_deferred_signal_is_raised_by_a_second_later_one(seconds, monkeypatch):
    times, repeated = [100.0, 100.0 + seconds], seconds < stopping.REPEAT_SECONDS
    clock = SimpleNamespace(monotonic=lambda: times.pop(0))
    with stoppable() as request, monkeypatch.context() as patch:
        patch.setattr(stopping, "time", clock)
        request.deferred = True
        os.kill(os.getpid(), signal.SIGTERM)
        with nullcontext() if repeated else pytest.raises(Stopped, match="SIGINT"):
            os.kill(os.getpid(), signal.SIGINT)
        assert request.deferred == repeated


def test_stoppable_defers_a_signal_until_it_is_released():
    with stoppable("go on") as request:
        request.deferred = True
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.number == signal.SIGTERM
        with pytest.raises(Stopped, match="by SIGTERM; go on"):
            request.release()
    with stoppable() as request:
        request.deferred = True
        request.release()


def test_stoppable_leaves_signals_ignored_that_were_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


def test_stopped_is_not_caught_as_a_failure():
    assert not issubclass(Stopped, Exception)


def test_stoppable_resends_a_signal_that_a_finaliser_discards():
    class SignalsWhenDeleted:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.001)

    def lose_a_signal():
        SignalsWhenDeleted()
        time.sleep(10)

    hook = sys.unraisablehook
    with pytest.raises(Stopped) as stop, stoppable():
        lose_a_signal()
    assert stop.value.number == signal.SIGTERM
    assert sys.unraisablehook is hook


def test_stoppable_reports_other_errors_of_finalisers(monkeypatch):
    class Fails:
        def __del__(self):
            raise ValueError("lost")

    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: lost.append(each.exc_value))
    with stoppable():
        Fails()
    assert [str(value) for value in lost] == ["lost"]
