import io

import pytest
from rich.console import Console

from gnnak.report.lookup import RunRecords
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.schedule.queue import Job
from gnnak.training.schedule.schedule import estimated_tasks, run_schedule

SMALL = {"model.num_layers": 1, "model.channels": 8, "train.epochs": 2}
CONFIG = change(load_experiment("triangles").config, SMALL)


def jobs(*seeds: int) -> list[Job]:
    each = [(seed, change(CONFIG, {"train.seed": seed})) for seed in seeds]
    return [Job(f"seed {seed}", "triangles", config) for seed, config in each]


@pytest.mark.slow
def test_runs_have_the_records_that_gnnak_train_writes(tmp_path):
    places = Places(None, tmp_path / "runs", tmp_path / "results")
    tasks = estimated_tasks(jobs(0, 1, 0), [], places, "abacus", 2)
    assert [task.job.title for task in tasks] == ["seed 0", "seed 1"]
    out = io.StringIO()
    result = run_schedule(tasks, places, Machine("cpu"), 5, console=Console(file=out))
    assert len(result.done) == 2
    assert out.getvalue().count("test accuracy") == 2
    found = RunRecords.read(places.results)
    records = found.exact(CONFIG)
    assert sorted(record["seed"] for record in records) == [0, 1]
    for record in records:
        assert record["jobs"] == 2  # as many workers as runs
        assert record["seconds"]["start"] > 0
        assert {"commit", "curves", "peak_memory_mb", "device"} <= set(record)
    device = records[0]["device"]
    (later,) = estimated_tasks(jobs(2), found.records, places, device, 2)
    assert later.estimate is not None
    assert later.estimate.seconds > 0
