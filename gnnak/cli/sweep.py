"""`gnnak sweep`: train a model with many combinations of options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import check_each, check_over, examples, option
from gnnak.cli.options import (
    JSON,
    RunOptions,
    ScheduleOptions,
    TrainingMachine,
    expanded,
    find_model,
    next_step,
)
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.config.run_config import RunConfig
    from gnnak.training.schedule.sweep import SweepRow

EXAMPLES = examples(
    "gnnak sweep zinc --over model=gin,gin-ak+ --seeds 3",
    "gnnak sweep mutag --over channels=32,64 --over lr=1e-2,1e-3 --epochs 50",
    "gnnak sweep zinc --over num_hops=1,2,3 --jobs 8 --minutes 25",
    "gnnak sweep counting --over target=triangle,star --dry-run",
    "gnnak sweep molecules.csv --target logp --over train.clip=1,null",
)


@expanded
def sweep(
    chosen: RunOptions,
    device: TrainingMachine,
    planned: ScheduleOptions,
    over: list[str] | None = option(
        metavar="KEY=V1,V2,...",
        callback=check_each(check_over),
        help="Values of one option, such as num_hops, lr or any key of --set; all "
        "combinations are run. May be repeated.",
    ),
    seeds: int = typer.Option(1, min=1, help="Number of seeds for each combination."),
    as_json: bool = JSON,
) -> None:
    """Train a model with all combinations of some options, and compare the scores.

    Combinations that already have a record are not trained again, and stopped runs are
    resumed: give the same command to go on. On data sets with folds, every combination
    is trained on all folds.
    """
    with stoppable_at_once():
        from gnnak.training.schedule.sweep import (
            check_values,
            parse_values,
            plan_sweep,
            short_name,
            shown_values,
            sweep_rows,
        )

    values = parse_values(over or [])
    check_values(values, chosen.options())
    several = not values.keys().isdisjoint({"model.name", "model.subgraphs.kind"})
    name, config = chosen.config(several)
    places = chosen.places(config)
    schedule = planned.schedule(places, device.machine())
    if "model.name" in values:
        values["model.name"] = [find_model(each) for each in values["model.name"]]
    combinations = plan_sweep(name, config, values, seeds, places)
    for each in combinations:
        ignored = [short_name(key) for key in values if key not in each.values]
        if ignored:
            told = f"{', '.join(shown_values(each.values))} ignores "
            told += f"{' and '.join(ignored)}: trained once, not for each value."
            typer.echo(told, err=True)
    missing = [job for each in combinations for job in each.missing]
    if planned.dry_run:
        schedule.show(missing, Console())
        return
    failed = schedule.run(missing, Console(stderr=True)).failed
    if not missing:
        typer.echo("all runs were already recorded; none was trained.", err=True)
    rows = sweep_rows(name, combinations, places)
    if as_json:
        shown = [row.as_dict() for row in rows]
        typer.echo(json.dumps({"rows": shown, "failed": [job.title for job in failed]}))
    else:
        _print(rows, list(values), config)
    if failed:
        raise typer.Exit(1)


def _print(rows: list[SweepRow], names: list[str], config: RunConfig) -> None:
    from gnnak.training.schedule.sweep import short_name, shown_values

    best = min(rows, key=lambda row: row.rank)
    metric = best.metric or "score"
    numbers = (f"validation {metric}", f"test {metric}", "s/epoch", "peak MB", "runs")
    table = Table(*map(short_name, names), *numbers)
    for row in rows:
        style = "bold" if row is best and row.metric else None
        values = [str(row.values.get(name, "")) for name in names]
        table.add_row(*values, *row.texts, style=style)
    Console().print(table)
    told = f"best validation {metric}: "
    told += ", ".join(shown_values(best.values)) or config.model.name
    if best.checkpoint is not None:
        told += f"; {next_step(Path(best.checkpoint), config)}"
    if best.metric:
        typer.echo(told, err=True)
