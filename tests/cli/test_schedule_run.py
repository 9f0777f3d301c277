from gnnak.cli.schedule_run import what_is_left
from gnnak.training.config.run_config import RunConfig
from gnnak.training.schedule.pool import Result
from gnnak.training.schedule.queue import Job

JOB = Job("a", "zinc", RunConfig())


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
