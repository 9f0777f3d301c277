"""`gnnak bench`: what an epoch costs."""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gnnak.cli.bench_tables import costs_table, kernels_table, remark
from gnnak.cli.options import (
    AcceleratorOption,
    DataDir,
    Json,
    MaxCopies,
    Plain,
    Recompute,
)
from gnnak.errors import OptionError
from gnnak.training.config import RunConfig
from gnnak.training.experiment import load_experiment
from gnnak.training.launch import Places, find_dataset
from gnnak.training.machine import Machine
from gnnak.training.measure.bench import BenchOptions, bench_both
from gnnak.training.measure.bench import bench as bench_one
from gnnak.training.measure.growth import RANGES, check_growing, grow
from gnnak.training.measure.stopwatch import Tell
from gnnak.training.options import change, parse_settings
from gnnak.training.results import Record, append_record, check_appendable
from gnnak.training.run import run_title
from gnnak.typing import check_choice

EXAMPLES = """
Examples:

    gnnak bench zinc --model gin-ak+ --compare --profile

    gnnak bench cifar10 --graphs 1536 --record

    gnnak bench zinc --grow channels --graphs 1280 --json
"""


def bench(
    experiment: Annotated[
        str,
        typer.Argument(help="A data set (`gnnak datasets list`), or a YAML file."),
    ],
    model: Annotated[
        str | None, typer.Option(help="As for train.", show_default="gin-ak+")
    ] = None,
    graphs: Annotated[
        int | None,
        typer.Option(min=2, help="Train on so many; seconds are scaled to all."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs that are timed.")] = 3,
    plain: Plain = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Both paths, and their ratio.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="On a GPU: which kernels run, how long.")
    ] = False,
    evaluation: Annotated[
        bool, typer.Option("--evaluation", help="Time the validation, too.")
    ] = False,
    growing: Annotated[
        str | None,
        typer.Option("--grow", help=f"A range of values: {', '.join(RANGES)}."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any option, as for train."),
    ] = None,
    data_dir: DataDir = None,
    accelerator: AcceleratorOption = "auto",
    recompute: Recompute = False,
    max_copies: MaxCopies = None,
    record: Annotated[
        bool, typer.Option("--record", help="Append to `bench.jsonl`.")
    ] = False,
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = Path(
        "results"
    ),
    as_json: Json = False,
) -> None:
    """Train for a few epochs and tell what one costs.

    Seconds of an epoch are those of training itself, after a warm-up, the median of a
    few. Its phases are timed on steps of their own that wait after each phase: where
    steps are captured, they take longer together than an epoch does.
    """
    if growing is not None:
        check_choice("--grow", growing, RANGES)
    if compare and (plain or growing is not None):
        raise OptionError("--compare measures both paths once; drop --plain or --grow.")
    named = {} if model is None else {"model.name": model}
    config = load_experiment(experiment).config
    config = change(config, named | parse_settings(settings or []))
    machine = Machine(
        accelerator,  # type: ignore[arg-type]
        recompute=recompute,
        max_copies=max_copies,
        fast=not plain,
    )
    options = BenchOptions(graphs, epochs, profile=profile, evaluation=evaluation)
    path = results / "bench.jsonl" if record else None
    if path is not None:
        check_appendable(path)
    places = Places(data_dir)
    with Console(stderr=True).status(run_title(config)) as status:

        def tell(words: str) -> None:
            status.update(f"{run_title(config)}: {words}")

        work = _work(config, places, machine, options, growing, compare, tell)
        records = list(_kept(work, path))
    _print(records, as_json)


def _work(
    config: RunConfig,
    places: Places,
    machine: Machine,
    options: BenchOptions,
    growing: str | None,
    compare: bool,
    tell: Tell,
) -> Iterable[Record]:
    """The records, as they come."""
    if growing is not None:
        check_growing(growing, config)  # type: ignore[arg-type]
        load = partial(find_dataset, config, places)
        return grow(growing, config, load, machine, options, tell)  # type: ignore[arg-type]
    dataset = find_dataset(config, places)
    if compare:
        return bench_both(config, dataset, machine, options, tell)
    return [bench_one(config, dataset, machine, options, tell)]


def _kept(records: Iterable[Record], path: Path | None) -> Iterator[Record]:
    """The records, each of them written down before the next is made."""
    for record in records:
        if path is not None:
            append_record(path, record)
        yield record


def _print(records: list[Record], as_json: bool) -> None:
    if as_json:
        for record in records:
            typer.echo(json.dumps(record))
        return
    console = Console(highlight=False)
    console.print(costs_table(records))
    console.print(remark(records[0]), soft_wrap=True)
    for record in records:
        if record["kernels"] is not None:
            console.print(kernels_table(record))
