import io
import time

import pytest
from rich.console import Console

from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.records.lookup import RunRecords
from gnnak.training.schedule.pool import Ended, Job, Queue, Result
from gnnak.training.schedule.schedule import Schedule, ScheduleView, what_is_left
from tests.training.schedule.light_jobs import light_task
from tests.training.schedule.test_queue import task

SMALL = {"model.num_layers": 1, "model.channels": 8, "train.epochs": 2}
CONFIG = change(load_experiment("triangles").config, SMALL)


def jobs(*seeds: int) -> list[Job]:
    each = [(seed, change(CONFIG, {"train.seed": seed})) for seed in seeds]
    return [Job(f"seed {seed}", "triangles", config) for seed, config in each]


@pytest.mark.slow
def test_runs_have_the_records_that_gnnak_train_writes(tmp_path):
    places = Places(None, tmp_path / "runs", tmp_path / "results")
    schedule = Schedule(places, Machine("cpu"), 5)
    twice = jobs(0, 1, 0)
    assert [task.job.title for task in schedule.tasks(twice)] == ["seed 0", "seed 1"]
    out = io.StringIO()
    result = schedule.run(twice, Console(file=out))
    assert len(result.done) == 2
    assert out.getvalue().count("test accuracy") == 2
    found = RunRecords.read(places.results)
    records = found.exact(CONFIG)
    assert sorted(record["seed"] for record in records) == [0, 1]
    for record in records:
        assert record["jobs"] == 2  # as many workers as runs
        assert record["seconds"]["start"] > 0
        assert {"commit", "curves", "peak_memory_mb", "device"} <= set(record)
    (later,) = schedule.tasks(jobs(2))
    assert later.is_known
    assert later.seconds > 0


JOB = Job("a", "triangles", CONFIG)


def test_nothing_is_told_if_all_runs_ended():
    assert what_is_left(Result(done=[JOB], failed=[JOB])) == ""


def test_runs_that_are_too_long_need_more_minutes_not_the_same_command():
    told = what_is_left(Result(waiting=[JOB, JOB]))
    assert told.startswith("2 runs not started, because the time that is left is short")
    assert "give more --minutes, or --long" in told


def test_runs_that_another_process_does_are_told_apart():
    told = what_is_left(Result(cut=[JOB], elsewhere=[JOB]))
    assert told.startswith("time is up: 1 run stopped and 0 not started; give the same")
    assert "1 run left to another process" in told


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
