"""`gnnak brec`: count the pairs of BREC that a trained network distinguishes."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gnnak.cli.choices import BREC_GROUPS
from gnnak.cli.options import AcceleratorOption, DataDir, Json, ResultsFolder
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice, check_seed

EXAMPLES = """
Examples:

    gnnak brec --model gin-ak+

    gnnak brec --model gin-ak+ --group basic --group regular --seed 100 --seed 200

    gnnak brec --model sswl+-gin --jobs 8

    gnnak brec --model ppgn --group basic --no-ceiling --json
"""
RESULTS = "brec.jsonl"
"""Name of the file in the results folder that the record is appended to."""


def brec(
    model: Annotated[str, typer.Option(help="Name of the network.")] = "gin-ak+",
    group: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated. One of: {', '.join(BREC_GROUPS)}."),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Seed; may be repeated.", show_default="100"),
    ] = None,
    subgraphs: Annotated[
        str | None, typer.Option(help="egonets, whole, deletion or masked-egonets.")
    ] = None,
    num_hops: Annotated[int | None, typer.Option(help="Radius of the egonets.")] = None,
    num_layers: Annotated[int | None, typer.Option(help="Number of layers.")] = None,
    base_layers: Annotated[
        int | None, typer.Option(help="Layers of the base GNN in each layer.")
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="Width of the node states.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Largest number of epochs.", show_default="20")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of pairs in parallel on the device.")
    ] = 1,
    ceiling: Annotated[
        bool,
        typer.Option(
            help="Also count, exactly, the pairs that the WL test that bounds "
            "the network distinguishes."
        ),
    ] = True,
    accelerator: AcceleratorOption = "auto",
    data_dir: DataDir = None,
    runs: Annotated[
        Path, typer.Option("--runs", help="Folder for results of finished pairs.")
    ] = Path("runs/brec"),
    results: ResultsFolder = Path("results"),
    as_json: Json = False,
) -> None:
    """Train a network on each pair of BREC; count the pairs that it distinguishes.

    BREC has 400 pairs of graphs in seven groups; the file brec.npz must be in the data
    folder. For each pair, a new network is trained on 32 relabellings of both graphs.
    A paired test then compares the embeddings, in two variants: as in BREC's released
    code, and with the factor 32 that belongs to its threshold.

    Options of the network that are not given are those of the BREC paper for the
    network. A stopped run continues where it stopped if it is started again with the
    same options. The record is appended to brec.jsonl in the results folder.
    """
    for name in group or ():
        check_choice("--group", name, BREC_GROUPS)
    seeds = [check_seed("--seed", number) for number in seed or [100]]
    check_choice("--accelerator", accelerator, ("auto", "cpu", "gpu"))
    with stoppable_at_once():
        from gnnak.brec.data import load_brec
        from gnnak.brec.run import Progress
        from gnnak.brec.trial import trial_options
        from gnnak.cli.brec_ceiling import ceiling_of, count_ceiling, no_ceiling
        from gnnak.cli.brec_run import (
            check_jobs,
            check_network,
            choose_device,
            count,
            table,
        )
        from gnnak.cli.train_run import find_model
        from gnnak.training.records.results import append_record, check_appendable

    options = trial_options(
        find_model(model),
        subgraphs=subgraphs,
        num_hops=num_hops,
        num_layers=num_layers,
        base_layers=base_layers,
        channels=channels,
        lr=lr,
        epochs=epochs,
    )
    check_network(options)
    check_jobs(options, jobs)
    device, finished = choose_device(accelerator), Progress.of(runs, options)
    for path in (results / RESULTS, finished.path):
        check_appendable(path)
    pairs = load_brec(data_dir)
    pairs = {name: pairs[name] for name in group or pairs}
    bound, counted = ceiling_of(options) if ceiling else None, None
    if bound is not None:
        counted = count_ceiling(pairs, bound, results / "wl_brec.jsonl")
    record = count(pairs, options, seeds, device, finished, counted, jobs)
    if ceiling and bound is None:
        record["notes"].append(no_ceiling(options))
    append_record(results / RESULTS, record)
    if as_json:
        typer.echo(json.dumps(record))
        return
    console = Console(highlight=False)
    console.print(table(record))
    for line in record["notes"]:
        console.print(line, markup=False, soft_wrap=True)
