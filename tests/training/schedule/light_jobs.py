"""Jobs that need no training, for tests of the worker processes."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from gnnak.training.config.run_config import RunConfig
from gnnak.training.processes.locks import InUseError
from gnnak.training.processes.stopping import stoppable
from gnnak.training.schedule.pool import Job, Task


@dataclass(frozen=True)
class Light:
    """Does what the title of a job says, and writes a line to a file."""

    file: Path

    def __call__(self, job: Job) -> str:
        what = job.title.split()[0]
        first = what not in self.lines()
        with self.file.open("a") as file:
            file.write(f"{what} {os.getpid()}\n")
        if what == "fail":
            raise ValueError("first line\nthe reason")
        if what == "other":
            raise InUseError("runs/zinc is in use by another run.")
        if what == "die" or (what == "die-once" and first):
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "full" and first:
            time.sleep(0.3)
            raise torch.OutOfMemoryError("CUDA out of memory.\nmore")
        if what == "sleep":
            time.sleep(60)
        if what == "save":
            with stoppable() as request:
                request.deferred = True
                while request.number is None:
                    time.sleep(0.01)
                self.file.with_name("saved").touch()
                request.release()
        return f"did {what}"

    def lines(self) -> list[str]:
        text = self.file.read_text() if self.file.exists() else ""
        return [line.split()[0] for line in text.splitlines()]


def light_task(title: str) -> Task:
    return Task(Job(title, "zinc", RunConfig()))


class Lines:
    """A watcher with one line per ended run; calls `when[n]` after n of them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.retries: list[str] = []
        self.most = 0
        self.when: dict[int, Callable[[], object]] = {}

    def update(self, running, queue) -> None:
        self.most = max(self.most, len(running))

    def retried(self, task, reason) -> None:
        self.retries.append(f"{task.job.title}: {reason}")

    def ended(self, task, outcome, seconds) -> None:
        word = "failed" if outcome.failed else "done"
        self.lines.append(f"{word} {task.job.title}: {outcome.text}")
        self.when.get(len(self.lines), lambda: None)()
