"""The work of `gnnak brec`: train on all pairs, count the ceiling, build the table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from time import perf_counter

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from gnnak.brec import run
from gnnak.brec.data import Pair
from gnnak.brec.trial import NO_FEATURES, OUT_CHANNELS, TrialOptions
from gnnak.cli.brec_ceiling import ceiling_range
from gnnak.errors import OptionError
from gnnak.models.bases import is_own_name
from gnnak.models.factory import build_model, parse_name
from gnnak.training.records.results import Record, environment, six_digits


def choose_device(accelerator: str) -> torch.device:
    """Return the device to train on.

    Args:
        accelerator: `auto`, `cpu` or `gpu`.

    Raises:
        OptionError: If there is no GPU, but `gpu` was given.
    """
    if accelerator == "gpu" and not torch.cuda.is_available():
        raise OptionError("--accelerator is gpu, but there is no GPU; use auto or cpu.")
    gpu = accelerator != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if gpu else "cpu")


def check_network(options: TrialOptions) -> None:
    """Build the network once, so that options that do not fit it are refused early."""
    sizes = (NO_FEATURES, None, OUT_CHANNELS)
    with torch.random.fork_rng(devices=[]):
        given = (*sizes, options.model_options())
        build_model(options.model, *given, degrees=(0, 1))  # for the base GNN PNA


def check_jobs(options: TrialOptions, jobs: int) -> None:
    """Refuse parallel jobs with a class of the user, which workers do not import."""
    base = parse_name(options.model).base
    if jobs > 1 and is_own_name(base):
        raise OptionError(
            f"--jobs is {jobs}, but processes do not import your class {base}; use "
            "--jobs 1."
        )


def count(
    groups: Mapping[str, Sequence[Pair]],
    options: TrialOptions,
    seeds: Sequence[int],
    device: torch.device,
    progress_file: run.Progress,
    ceiling: Record | None = None,
    jobs: int = 1,
) -> Record:
    """Run BREC with a progress bar and return its record.

    Args:
        groups: The pairs of each group.
        options: Options of the network and of its training.
        seeds: The seeds.
        device: Where to train.
        progress_file: Where the results of finished pairs are stored.
        ceiling: The result of `count_ceiling`; None = there is none.
        jobs: Number of pairs in parallel.
    """
    columns = (
        TextColumn("{task.description:32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    total = len(seeds) * sum(len(pairs) for pairs in groups.values())
    places = {(s, g, i) for s in seeds for g in groups for i in range(len(groups[g]))}
    resumed = len(places & progress_file.finished().keys())
    started = perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(options.model, total=total)

        def advance(group: str, seed: int) -> None:
            bar.update(task, advance=1, description=f"seed {seed}, {group}")

        given = (groups, options, seeds, device, progress_file, advance)
        found = run.run_pairs(*given, jobs=jobs)
    record: Record = {
        "kind": "brec",
        "options": asdict(options),
        "seeds": run.summary(found),
        "seconds": six_digits(perf_counter() - started),
        "jobs": jobs,
        # Pairs with stored results: trained earlier, perhaps on another device.
        "resumed_pairs": resumed,
    }
    record |= {"ceiling": ceiling, "published": run.PUBLISHED} | environment(device)
    return record | {"notes": _notes(record)}


def table(record: Record) -> Table:
    """Return a table with one row per group, and two columns of counts per seed."""
    built = Table("group", title=f"BREC, {record['options']['model']}")
    built.add_column("pairs", justify="right")
    for seed in record["seeds"]:
        built.add_column(f"released, seed {seed}", justify="right")
        built.add_column(f"with factor q, seed {seed}", justify="right")
    ceiling = record["ceiling"]
    if ceiling is not None:
        built.add_column("ceiling", justify="right")
    first = next(iter(record["seeds"].values()))
    for name, found in first.items():
        cells = [name, str(found["pairs"])]
        for by_group in record["seeds"].values():
            cells += [str(by_group[name][test]) for test in ("released", "corrected")]
        if ceiling is not None:
            cells.append(ceiling_range(*_limit(ceiling, name)))
        if name == "all":
            built.add_section()
        built.add_row(*cells)
    return built


def _limit(ceiling: Record, group: str) -> tuple[int, int]:
    """Return the ceiling of a group, or of "all", and the number of pairs not run."""
    apart, not_run = ceiling["apart"], ceiling["not_run_by_group"]
    if group == "all":
        return sum(apart.values()), sum(not_run.values())
    return apart[group], not_run[group]


def _above(record: Record) -> list[str]:
    """Name the counts that are above the ceiling of their group."""
    return [
        f"{count} of {name} (seed {seed}, {words})"
        for seed, by_group in record["seeds"].items()
        for name, found in by_group.items()
        for words, count in (
            ("as released", found["released"]),
            ("with the factor q", found["corrected"]),
        )
        if count > sum(_limit(record["ceiling"], name))
    ]


def _notes(record: Record) -> list[str]:
    """Return sentences about singular covariances, reliability and published counts."""
    lines = []
    for seed, by_group in record["seeds"].items():
        found = by_group["all"]
        lines.append(
            f"Seed {seed}: {found['singular']} singular covariances; the reliability "
            f"check failed for {found['unreliable_released']} pairs as released and "
            f"for {found['unreliable_corrected']} with the factor q. These pairs are "
            "not counted."
        )
    if record["ceiling"] is not None:
        bound = record["ceiling"]
        lines.append(f"Ceiling: exact count of {bound['test']}.")
        if bound["not_run"]:
            lines.append(
                f"The ceiling lacks {bound['not_run']} pairs, whose graphs are too "
                "large for this test."
            )
        above = _above(record)
        if above:
            lines.append(
                f"Above the ceiling, so by chance or rounding errors: "
                f"{', '.join(above)}."
            )
    counts = ", ".join(f"{name} {count}" for name, count in record["published"].items())
    lines.append(f"Published, of 400 pairs: {counts}.")
    return lines
