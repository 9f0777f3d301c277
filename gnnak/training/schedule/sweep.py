"""Sweeps: runs with all combinations of some options, and their scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean
from typing import Any

import yaml

from gnnak.errors import OptionError
from gnnak.models.factory import check_read, read_options
from gnnak.training.config.experiment import flat, full_names
from gnnak.training.config.options import change
from gnnak.training.config.run_config import PER_RUN, RunConfig
from gnnak.training.launch import Places, find_dataset, folds_of, warn_of_unused
from gnnak.training.records.lookup import RunRecords, summarise
from gnnak.training.schedule.pool import Job


@dataclass(frozen=True)
class Combination:
    """One combination of option values in a sweep, with its runs."""

    values: Mapping[str, Any]
    """Values of the varied options, by name, without options that the model ignores."""
    config: RunConfig
    runs: tuple[tuple[int, int | None], ...]
    """Seed and fold of each run."""
    missing: tuple[Job, ...]
    """The runs that have no record yet."""


@dataclass(frozen=True)
class SweepRow:
    values: Mapping[str, Any]
    metric: str = ""
    """The metric of the scores; empty if no run has a record."""
    lower_is_better: bool = True
    validation: float = math.nan
    """Mean score on the validation graphs; NaN if no run has a record."""
    test: float = math.nan
    """Mean score on the test graphs; NaN if no run has a defined score."""
    deviation: float | None = None
    """Standard deviation of the test score; None with fewer than two runs."""
    seconds: float = math.nan
    """Mean seconds of a training epoch."""
    megabytes: float = math.nan
    """Largest peak memory of training, in MB."""
    runs: int = 0
    planned: int = 0
    checkpoint: str | None = None
    """`best.ckpt` of the run with the best validation score; None if not found."""

    @property
    def rank(self) -> float:
        """A number by which rows can be sorted, the best validation score first."""
        if math.isnan(self.validation):
            return math.inf
        return self.validation if self.lower_is_better else -self.validation

    @property
    def texts(self) -> list[str]:
        runs = f"{self.runs} of {self.planned}"
        if not self.runs:
            return ["", "", "", "", runs]
        spread = "" if self.deviation is None else f" ± {self.deviation:.4f}"
        return [
            f"{self.validation:.4f}",
            "undefined" if math.isnan(self.test) else f"{self.test:.4f}{spread}",
            f"{self.seconds:.3g}",
            f"{self.megabytes:,.0f}",
            runs,
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dict for JSON, with None instead of NaN."""
        return {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in asdict(self).items()
        }


def parse_values(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parse arguments `key=value,value,...` of the option `--over`; values are YAML."""
    values: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, given = text.partition("=")
        if not equals or not key.strip() or not given.strip():
            raise OptionError(
                f"--over got {text!r}; give key=value,value, such as channels=64,128."
            )
        (key,) = full_names({key.strip(): given})
        if key in values:
            raise OptionError(f"--over has {key} twice; give all its values at once.")
        if key in PER_RUN:
            raise OptionError(
                f"--over got {key}; use --seeds for seeds, and --set for one fold."
            )
        try:
            values[key] = yaml.safe_load(f"[{given}]")
        except yaml.YAMLError as error:
            raise OptionError(f"--over {key}: {given!r} is not a YAML list.") from error
    return values


def grid(
    config: RunConfig, values: Mapping[str, Sequence[Any]]
) -> list[tuple[dict[str, Any], RunConfig]]:
    """Return all combinations of values, each with its config.

    Combinations that differ only in options that their model ignores are returned once,
    without these options. An option that all models ignore raises `OptionError`.
    """
    found: dict[RunConfig, dict[str, Any]] = {}
    for each in product(*values.values()):
        given = dict(zip(values, each, strict=True))
        read = {f"model.{name}" for name in read_options(change(config, given).model)}
        chosen = {
            key: value
            for key, value in given.items()
            if not key.startswith("model.") or not read.isdisjoint(flat({key: value}))
        }
        found.setdefault(change(config, chosen), chosen)
    for key, (first, *_) in values.items():
        if not any(key in chosen for chosen in found.values()):
            check_read(change(config, next(iter(found.values()))).model, {key: first})
    return [(chosen, shared) for shared, chosen in found.items()]


def plan_sweep(
    experiment: str,
    config: RunConfig,
    values: Mapping[str, Sequence[Any]],
    seeds: int,
    places: Places,
) -> list[Combination]:
    records = RunRecords.read(*places.all_results)
    combinations, datasets = [], {}
    planned = grid(config, values)
    for _, shared in planned:
        shared.check_family()
    for chosen, shared in planned:
        if shared.data not in datasets:  # loading a data set can take seconds
            datasets[shared.data] = find_dataset(shared, places)
            warn_of_unused(datasets[shared.data], shared.data.own)
        dataset = datasets[shared.data]
        if dataset.info.own_data:
            shared = change(shared, {"data.protocol": dataset.info.protocols[0]})
        done = {(r["seed"], r.get("fold")) for r in records.exact(shared)}
        folds = folds_of(shared, dataset)
        first = config.train.seed
        runs = [
            change(each, {"train.seed": seed})
            for seed in range(first, first + seeds)
            for each in folds
        ]
        missing = [run for run in runs if (run.train.seed, run.data.fold) not in done]
        jobs = tuple(Job(_title(chosen, run), experiment, run) for run in missing)
        pairs = tuple((run.train.seed, run.data.fold) for run in runs)
        combinations.append(Combination(chosen, shared, pairs, jobs))
    return combinations


def check_values(values: Iterable[str], options: Mapping[str, Any]) -> None:
    """Raise `OptionError` if an option is both varied (`values`) and in `options`."""
    for key in full_names(options):
        if key in values:
            raise OptionError(
                f"{key} is set for all runs and varied by --over; leave out one of "
                "both."
            )


def sweep_rows(
    experiment: str, combinations: Sequence[Combination], places: Places
) -> list[SweepRow]:
    records = RunRecords.read(*places.all_results)
    return [_row(experiment, each, records, places) for each in combinations]


def _row(
    experiment: str, combination: Combination, records: RunRecords, places: Places
) -> SweepRow:
    exact = records.exact(combination.config)
    found = {(r["seed"], r.get("fold")): r for r in exact}
    newest = [found[run] for run in combination.runs if run in found]
    planned = len(combination.runs)
    if not newest:
        return SweepRow(combination.values, planned=planned)
    tests = summarise(newest)
    sign = 1 if newest[0]["lower_is_better"] else -1
    best = min(newest, key=lambda record: sign * record["scores"]["validation"])
    run = {"train.seed": best["seed"], "data.fold": best.get("fold")}
    folder = places.of(change(combination.config, run), experiment)
    checkpoint = folder / "best.ckpt"
    return SweepRow(
        combination.values,
        newest[0]["metric"],
        newest[0]["lower_is_better"],
        fmean(record["scores"]["validation"] for record in newest),
        math.nan if tests.mean is None else tests.mean,
        tests.deviation,
        summarise(newest, "seconds").mean or 0.0,
        max(record["peak_memory_mb"]["train"] for record in newest),
        len(newest),
        planned,
        str(checkpoint) if checkpoint.exists() else None,
    )


def _title(values: Mapping[str, Any], config: RunConfig) -> str:
    words = [config.data.name, *shown_values(values), f"seed {config.train.seed}"]
    if config.data.fold is not None:
        words.append(f"fold {config.data.fold}")
    return ", ".join(words)


def short_name(key: str) -> str:
    return "model" if key == "model.name" else key.rpartition(".")[2]


def shown_values(values: Mapping[str, Any]) -> list[str]:
    return [f"{short_name(key)}={value}" for key, value in values.items()]
