"""gnnak evaluate: score a checkpoint."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gnnak.cli.options import AcceleratorOption, DataDir, Json, MaxCopies, Plain
from gnnak.graphs.readers.graph_file import PARTS
from gnnak.training.checkpoint import load_checkpoint
from gnnak.training.evaluate import evaluate as score_checkpoint
from gnnak.training.launch import Places, find_dataset
from gnnak.training.machine import Machine
from gnnak.training.run import run_title
from gnnak.typing import check_choice

EXAMPLES = """
Examples:

    gnnak evaluate runs/zinc-gin-ak+-1b2c3d4e5f6a/best.ckpt

    gnnak evaluate best.ckpt --part validation --json
"""


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="The best.ckpt of a run.")],
    part: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    data_dir: DataDir = None,
    accelerator: AcceleratorOption = "auto",
    max_copies: MaxCopies = None,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Score a trained network again, on any part of its data set."""
    check_choice("part", part, PARTS)
    machine = Machine(accelerator, max_copies=max_copies, fast=not plain)  # type: ignore[arg-type]
    found = load_checkpoint(checkpoint)
    dataset = find_dataset(found.config, Places(data_dir))
    score = score_checkpoint(found, dataset, part, machine)  # type: ignore[arg-type]
    if as_json:
        told = {"part": part, "metric": dataset.info.metric, "score": score}
        typer.echo(json.dumps(told | {"recorded": found.scores.get(part)}))
        return
    recorded = found.scores.get(part)
    beside = "" if recorded is None else f" (when it was trained: {recorded:.4f})"
    title = run_title(found.config)
    typer.echo(f"{title}: {part} {dataset.info.metric} {score:.4f}{beside}")
