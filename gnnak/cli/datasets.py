"""`gnnak datasets`: list, describe and prepare data sets."""

import json
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from gnnak.cli.names import check_dataset, check_each, examples, typer_app
from gnnak.cli.options import DATA_DIR, JSON, show
from gnnak.training.processes.stopping import stoppable_at_once

LIST_EXAMPLES = examples(
    "gnnak datasets list",
    "gnnak datasets list --data-dir data --json",
)
DESCRIBE_EXAMPLES = examples(
    "gnnak datasets describe",
    "gnnak datasets describe zinc counting --data-dir data",
    "gnnak datasets describe sr25 --json",
)
PREPARE_EXAMPLES = examples(
    "gnnak datasets prepare pattern properties",
    "gnnak datasets prepare zinc --json",
)

SEED = typer.Option(0, min=0, help="Seed of generated data sets.")

app = typer_app("List, describe and prepare data sets.", LIST_EXAMPLES)


@app.command(name="list", epilog=LIST_EXAMPLES)
def list_datasets(data_dir: Path | None = DATA_DIR, as_json: bool = JSON) -> None:
    """List all data sets, their task and metric, and where they are loaded from."""
    with stoppable_at_once():
        from gnnak.datasets import DATASETS
        from gnnak.datasets.describe import whereabouts

    found: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "title": entry.info.title,
            "description": entry.description,
            "task": entry.info.task,
            "metric": entry.info.metric,
            "targets": entry.targets,
            "protocols": entry.info.protocols,
            "from": whereabouts(entry, data_dir),
        }
        for entry in DATASETS.values()
    ]
    if as_json:
        typer.echo(json.dumps(found))
        return
    columns = ("name", "title", "task", "metric", "from")
    table = Table(*columns)
    for row in found:
        table.add_row(*(str(row[column]) for column in columns))
    targets = {row["name"]: row["targets"] for row in found if row["targets"]}
    show(table, *(f"targets of {k}: {', '.join(v)}" for k, v in targets.items()))


@app.command(epilog=DESCRIBE_EXAMPLES)
def describe(
    names: list[str] | None = typer.Argument(
        None, callback=check_each(check_dataset), help="Data sets."
    ),
    seed: int = SEED,
    data_dir: Path | None = DATA_DIR,
    as_json: bool = JSON,
) -> None:
    """Measure data sets and compare them with the figures in the paper.

    Without names, all data sets are measured that are on disk or can be generated.
    Means are over all graphs, except where the paper averages over training graphs.
    """
    with stoppable_at_once():
        from gnnak.cli.data_run import describe_all, description_table

    found = describe_all(names or [], seed, data_dir)
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in found]))
        return
    show(
        description_table(found),
        "* differs from the digits that the paper prints",
        "t over the training graphs, as in the paper",
        *(f"{row.name}: {row.note}" for row in found if row.note),
    )


@app.command(epilog=PREPARE_EXAMPLES)
def prepare(
    names: list[str] = typer.Argument(
        callback=check_each(check_dataset), help="Data sets."
    ),
    seed: int = SEED,
    data_dir: Path | None = DATA_DIR,
    as_json: bool = JSON,
) -> None:
    """Generate or download data sets now, so that later commands find them cached."""
    with stoppable_at_once():
        from gnnak.cli.data_run import prepare_all
        from gnnak.datasets import cache_dir

    rows = prepare_all(names, seed, data_dir)
    if as_json:
        typer.echo(json.dumps({"cache": str(cache_dir()), "datasets": rows}))
        return
    for row in rows:
        written = ", ".join(row["written"]) or "nothing new to cache"
        typer.echo(
            f"{row['name']}: {row['graphs']:,} graphs, {row['source']}; {written}"
        )
    typer.echo(f"cache: {cache_dir()}")
