import os
import time

import pytest
import torch

from gnnak.errors import TrainingError
from gnnak.training.processes import workers
from gnnak.training.schedule import pool as pools
from gnnak.training.schedule.pool import Pool, Queue
from tests.training.schedule.light_jobs import Light, Lines, light_task

pytestmark = pytest.mark.slow


def titles(jobs) -> list[str]:
    return sorted(job.title for job in jobs)


def test_a_pool_does_all_jobs_although_some_fail_or_are_killed(tmp_path):
    light, lines = Light(tmp_path / "begun"), Lines()
    names = ["a", "b", "c", "fail", "die-once", "die", "full", "other"]
    queue = Queue([light_task(name) for name in names])
    result = Pool(queue, 2, light, tmp_path / "logs", lines).run()
    assert titles(result.done) == ["a", "b", "c", "die-once", "full"]
    assert titles(result.failed) == ["die", "fail"]
    assert titles(result.elsewhere) == ["other"]
    assert result.cut == result.waiting == []
    begun = light.lines()
    assert begun.count("a") == begun.count("fail") == 1
    # A run whose process is killed is tried once more, in a new process.
    assert begun.count("die-once") == begun.count("die") == 2
    assert "failed fail: the reason" in lines.lines
    died = next(line for line in lines.lines if line.startswith("failed die"))
    assert "its process was killed by SIGKILL; see" in died
    killed = "its process was killed by SIGKILL; queued again, to be resumed"
    assert sorted(lines.retries) == [
        f"die-once: {killed}",
        f"die: {killed}",
        "full: the GPU had too little memory; queued again, to run alone",
    ]
    assert lines.most == 2
    assert workers.MAIN not in os.environ


def test_workers_take_run_after_run_and_stop_when_time_is_up(tmp_path):
    light, lines = Light(tmp_path / "begun"), Lines()
    queue = Queue([light_task("a"), light_task("b"), light_task("sleep")])
    pool = Pool(queue, 1, light, tmp_path / "logs", lines)
    lines.when = {2: lambda: setattr(pool, "end", time.monotonic() + 0.5)}
    result = pool.run()
    assert titles(result.done) == ["a", "b"]
    assert titles(result.cut) == ["sleep"]
    pids = {line.split()[1] for line in light.file.read_text().splitlines()}
    assert len(pids) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.pop()), 0)


def test_a_run_that_is_stopped_when_time_is_up_can_write_a_checkpoint(tmp_path):
    light, lines = Light(tmp_path / "begun"), Lines()
    pool = Pool(Queue([light_task("a"), light_task("save")]), 1, light, tmp_path, lines)
    lines.when = {1: lambda: setattr(pool, "end", time.monotonic() + 2)}
    assert titles(pool.run().cut) == ["save"]
    assert (tmp_path / "saved").exists()
    assert "Traceback" not in (tmp_path / "worker-1.log").read_text()


@pytest.mark.parametrize(
    ("variable", "workers", "threads"), [("", 1, 4), ("", 2, 2), ("4", 2, 4)]
)
def test_threads_of_workers_are_those_of_train_or_of_omp_num_threads(
    variable, workers, threads, tmp_path, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    pool = Pool(Queue([]), workers, Light(tmp_path / "begun"), tmp_path, Lines())
    assert pool._threads == threads


def test_jobs_are_not_begun_after_the_end(tmp_path):
    light = Light(tmp_path / "begun")
    queue = Queue([light_task("a")])
    result = Pool(queue, 1, light, tmp_path / "logs", Lines(), seconds=0).run()
    assert titles(result.waiting) == ["a"]
    assert light.lines() == []


def test_a_pool_ends_if_its_workers_cannot_start(tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "work", os._exit)
    queue = Queue([light_task("a")])
    pool = Pool(queue, 1, Light(tmp_path / "begun"), tmp_path / "logs", Lines())
    with pytest.raises(TrainingError, match="a worker process ended with exit code"):
        pool.run()


def test_the_memory_of_the_device_is_shared_after_that_of_the_workers(tmp_path):
    queue = Queue([])
    pool = Pool(queue, 2, Light(tmp_path / "begun"), tmp_path, Lines())
    worker = pools._Worker("1", None, None)
    pool._admit(worker, 100_000.0)
    assert queue.megabytes == pools.SHARE * 100_000.0 - 2 * pools.CONTEXT_MB
    pool._admit(worker, 50_000.0)
    assert queue.megabytes > 80_000.0
