"""One training run of a schedule, and the grid of runs of `gnnak sweep`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig


@dataclass(frozen=True)
class Work:
    """Anything that a worker process of a `Pool` can do; must be picklable."""

    title: str
    """The title of the work on the screen."""


@dataclass(frozen=True)
class Job(Work):
    """One training run that is to be done."""

    experiment: str
    """The name of the experiment, which is written to the record of the run."""
    config: RunConfig
    """All options of the run, including its seed and fold."""


def without_repeats(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs without those whose run is already in the list.

    Two jobs are the same run if experiment and config are equal. Tables share runs: the
    score of GIN-AK+ on ZINC is a cell of several tables.
    """
    first = {(job.experiment, job.config): job for job in reversed(jobs)}
    return [job for job in jobs if first[job.experiment, job.config] is job]


def grid(
    config: RunConfig, values: Mapping[str, Sequence[Any]]
) -> list[tuple[dict[str, Any], RunConfig]]:
    """Return one config per combination of values.

    Args:
        config: The options that all configs share.
        values: The values of each option, such as `{"model.num_layers": [2, 4]}`. The
            values of the last option change fastest.

    Returns:
        Pairs of the values of one combination, by option, and the config with them.

    Raises:
        OptionError: If an option has no values, is unknown, or has a wrong value.

    >>> pairs = grid(RunConfig(), {"train.seed": [0, 1], "model.channels": [64]})
    >>> [chosen for chosen, _ in pairs]
    [{'train.seed': 0, 'model.channels': 64}, {'train.seed': 1, 'model.channels': 64}]
    """
    for name, given in values.items():
        if not given:
            raise OptionError(f"{name} has no values; give at least one.")
    combinations = product(*values.values())
    chosen = [dict(zip(values, each, strict=True)) for each in combinations]
    return [(each, change(config, each)) for each in chosen]
