"""`gnnak evaluate`: score a trained model, given its checkpoint."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from gnnak.cli.options import (
    AcceleratorOption,
    DataDir,
    Json,
    MaxCopies,
    Modules,
    Plain,
    import_own,
    make_machine,
)
from gnnak.training.processes.stopping import stoppable_at_once
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
    modules: Modules = None,
    accelerator: AcceleratorOption = "auto",
    max_copies: MaxCopies = None,
    plain: Plain = False,
    other_data: Annotated[
        bool,
        typer.Option("--other-data", help="Score other graphs than those of the run."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Score a trained model on the training, validation or test graphs."""
    with stoppable_at_once():
        from gnnak.graphs.readers.npz import PARTS
        from gnnak.training.launch import Places, find_dataset
        from gnnak.training.run import evaluate as score_checkpoint
        from gnnak.training.run import run_title
        from gnnak.training.trained import find_local

    check_choice("part", part, PARTS)
    import_own(modules)
    machine = make_machine(accelerator, max_copies, plain)
    found = find_local(checkpoint)
    dataset = find_dataset(found.config, Places(data_dir))
    score = score_checkpoint(found, dataset, part, machine, other_data)  # type: ignore[arg-type]
    recorded, metric = found.scores.get(part), dataset.info.metric
    is_defined = math.isfinite(score)
    if as_json:
        shown = {
            "part": part,
            "metric": metric,
            "score": score if is_defined else None,
            "recorded": recorded,
        }
        typer.echo(json.dumps(shown))
        return
    before = "" if recorded is None else f" (when it was trained: {recorded:.4f})"
    now = f"{score:.4f}" if is_defined else "undefined"
    typer.echo(f"{run_title(found.config)}: {part} {metric} {now}{before}")
