import io
import time

from rich.console import Console

from gnnak.training.schedule.pool import Ended
from gnnak.training.schedule.queue import Queue
from gnnak.training.schedule.schedule import ScheduleView
from tests.training.schedule.light_jobs import light_task
from tests.training.schedule.test_queue import task


def shown(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=99, color_system=None)
    with ScheduleView(console, 3, 2, lambda job: 7) as view:
        view.ended(light_task("first"), Ended("test mae 0.1"), 95)
        view.retried(light_task("second"), "its process was killed by SIGKILL")
        view.ended(light_task("second"), Ended("no memory", failed=True), 3)
        running = {"1": (task(600), time.monotonic() - 60)}
        view.update(running, Queue([task(60)]))
    return out.getvalue()


def test_lines_of_ended_runs_are_all_that_a_file_gets():
    assert shown(terminal=False).splitlines() == [
        "[1/3] first: test mae 0.1, 1 min 35 s",
        "second: its process was killed by SIGKILL",
        "[2/3] failed: second: no memory, 3 s",
    ]


def test_a_terminal_shows_running_runs_and_the_time_left():
    text = shown(terminal=True)
    assert "7 of 310" in text
    assert "1 min 0 s" in text
    assert "10 min 0 s" in text
    assert "1 of 3 runs done, 1 failed; about 9 min 0 s left" in text
