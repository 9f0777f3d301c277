"""`gnnak bench`: measure time and memory of a training epoch."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gnnak.cli.options import (
    GROWING,
    AcceleratorOption,
    DataDir,
    Experiment,
    Json,
    MaxCopies,
    Plain,
    Recompute,
    ResultsFolder,
    Settings,
)
from gnnak.errors import OptionError
from gnnak.training.config.options import change, parse_settings
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice

EXAMPLES = """
Examples:

    gnnak bench zinc --model gin-ak+ --compare --profile

    gnnak bench cifar10 --graphs 1536 --record

    gnnak bench zinc --grow channels --graphs 1280 --json
"""


def bench(
    experiment: Experiment,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of the model, as in `gnnak train`.", show_default="gin-ak+"
        ),
    ] = None,
    graphs: Annotated[
        int | None,
        typer.Option(
            min=2, help="Train on this many graphs; times are scaled to all graphs."
        ),
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Number of epochs to measure.")
    ] = 3,
    plain: Plain = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Measure with and without --plain; show both."),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="On a GPU: list the slowest kernels.")
    ] = False,
    evaluation: Annotated[
        bool, typer.Option("--evaluation", help="Also measure the validation pass.")
    ] = False,
    growing: Annotated[
        str | None,
        typer.Option(
            "--grow",
            help=f"Repeat for growing values of one of: {', '.join(GROWING)}.",
        ),
    ] = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    accelerator: AcceleratorOption = "auto",
    recompute: Recompute = False,
    max_copies: MaxCopies = None,
    record: Annotated[
        bool, typer.Option("--record", help="Append the records to `bench.jsonl`.")
    ] = False,
    results: ResultsFolder = Path("results"),
    as_json: Json = False,
) -> None:
    """Train for a few epochs; print the time and memory of one epoch.

    The time of an epoch is the median over training epochs after a warm-up. The phases
    of a step are timed in extra steps that synchronise with the GPU after each phase.
    If training steps are captured as CUDA graphs, the phases therefore add up to more
    than the epoch.
    """
    if growing is not None:
        check_choice("--grow", growing, GROWING)
    if compare and (plain or growing is not None):
        raise OptionError("--compare measures both paths once; drop --plain or --grow.")
    with stoppable_at_once():
        from gnnak.cli.bench_run import costs_table, footer, kernels_table, measure
        from gnnak.models.factory import normal_name
        from gnnak.training.config.experiment import load_experiment
        from gnnak.training.launch import Places
        from gnnak.training.measure.bench import BenchOptions
        from gnnak.training.processes.machine import Machine
        from gnnak.training.records.results import check_appendable
        from gnnak.training.run import run_title

    config = load_experiment(experiment).config_for(
        None if model is None else normal_name(model)
    )
    config = change(config, parse_settings(settings or []))
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
    with Console(stderr=True).status(run_title(config)) as status:
        records = measure(
            config,
            Places(data_dir),
            machine,
            options,
            growing,
            compare,
            path,
            lambda words: status.update(f"{run_title(config)}: {words}"),
        )
    if as_json:
        for each in records:
            typer.echo(json.dumps(each))
        return
    console = Console(highlight=False)
    console.print(costs_table(records))
    console.print(footer(records[0]), soft_wrap=True)
    for each in records:
        if each["kernels"] is not None:
            console.print(kernels_table(each))
