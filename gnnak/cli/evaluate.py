"""`gnnak evaluate`: score a trained model, given its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import (
    PARTS,
    check_file,
    check_metric,
    check_name,
    check_trained,
    examples,
    flag,
    option,
)
from gnnak.cli.options import (
    DATA_DIR,
    JSON,
    LABELS,
    METRIC_NAMES,
    MODULES,
    SKIP_BAD,
    TRAINED_SMILES,
    MachineOptions,
    expanded,
    given,
    import_own,
    shown_score,
)
from gnnak.errors import OptionError, counted
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.evaluation import Evaluation

EXAMPLES = examples(
    "gnnak evaluate runs/zinc-gin-ak+-1b2c3d4e5f6a/best.ckpt",
    "gnnak evaluate best.ckpt --part validation --json",
    "gnnak evaluate best.ckpt labelled.csv --metric r2",
    "gnnak evaluate best.ckpt graphs.g6 --targets labels.csv",
)


@expanded
def evaluate(
    context: typer.Context,
    device: MachineOptions,
    checkpoint: Path = typer.Argument(
        callback=check_trained,
        help="The best.ckpt of a run, or a folder of save_pretrained.",
    ),
    data: Path | None = typer.Argument(
        None,
        callback=check_file,
        help="New graphs with known targets, in any file that `gnnak train` reads. "
        "Of one graph with a test_mask, the test nodes are scored.",
        show_default="the data of the run",
    ),
    part: str | None = option(
        callback=check_name("--part", PARTS),
        help="Of the data of the run: train, validation or test.",
        show_default="test",
    ),
    metric: str | None = option(
        callback=check_metric, help=METRIC_NAMES, show_default="as in training"
    ),
    target: list[str] | None = option(
        help="Column or attribute of new data that has a target. May be repeated.",
        show_default="as in training",
    ),
    smiles: str | None = TRAINED_SMILES,
    targets: Path | None = LABELS,
    skip_bad: bool = SKIP_BAD,
    data_dir: Path | None = DATA_DIR,
    modules: list[str] | None = MODULES,
    other_data: bool = flag(
        "--other-data", help="Score other graphs than those of the run."
    ),
    as_json: bool = JSON,
) -> None:
    """Score a trained model on new labelled graphs, or on a part of its own data."""
    _check_paths([checkpoint, *([data] if data else []), *map(Path, context.args)])
    of_new = given(target=target, smiles=smiles, labels=targets, skip_bad=skip_bad)
    of_run = given(part=part, data_dir=data_dir, other_data=other_data or None)
    _check_options(data, of_new, of_run)
    with stoppable_at_once():
        from gnnak.backend import use_backend
        from gnnak.training.evaluation import with_metric
        from gnnak.training.launch import Places, find_dataset
        from gnnak.training.run import evaluate as score_checkpoint
        from gnnak.training.run import run_title
        from gnnak.training.trained import TrainedModel, find_local

    part = part or "test"
    import_own(modules)
    machine = device.machine()
    found = find_local(checkpoint)
    metric = with_metric(found.info, metric and metric.lower()).metric
    if data is not None:
        model = TrainedModel(found).to(machine.device)
        model.network.save_memory(recompute=False, max_copies=machine.max_copies)
        with use_backend(machine.backend):
            scores = model.evaluate(data, metric=metric, **of_new)
        kind = "node" if found.info.node_task else "graph"
        kind = f"{scores.part} {kind}" if scores.part else kind
        rows = counted(scores.num_rows, kind)
        _print(scores, f"{data}: {rows},", {"data": str(data)}, as_json)
        return
    dataset = find_dataset(found.config, Places(data_dir))
    scores = score_checkpoint(found, dataset, part, machine, other_data, metric)  # type: ignore[arg-type]
    recorded = found.scores.get(part) if metric == found.info.metric else None
    title = f"{run_title(found.config)}: {part}"
    _print(scores, title, {"recorded": recorded}, as_json)


def _check_paths(paths: Sequence[Path]) -> None:
    models = sum(path.suffix == ".ckpt" for path in paths)
    if models > 1:
        raise OptionError(
            f"evaluate takes one model; {models} were given; score one after the other."
        )
    if len(paths) > 2:
        told = "evaluate takes one model and at most one file with data"
        raise OptionError(f"{told}; {len(paths)} paths were given.")


def _check_options(
    data: Path | None, of_new: Mapping[str, Any], of_run: Mapping[str, Any]
) -> None:
    if data is not None and of_run:
        option = next(iter(of_run)).replace("_", "-")
        raise OptionError(
            f"--{option} is for the data of the run; leave it out, or leave out {data}."
        )
    flags = {"labels": "targets", "skip_bad": "skip-bad"}
    if data is None and (options := [key for key in of_new if of_new[key]]):
        option = flags.get(options[0], options[0])
        raise OptionError(
            f"--{option} is for new data; leave it out, or name a file after the model."
        )


def _print(found: Evaluation, title: str, more: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(more | found.as_dict()))
        return
    if found.bad:
        count = counted(len(found.bad), "row")
        typer.echo(f"left out {count}, {found.bad[0]}", err=True)
    recorded = more.get("recorded")
    before = "" if recorded is None else f" (when it was trained: {recorded:.4f})"
    typer.echo(f"{title} {found.metric} {shown_score(found.score)}{before}")
    if found.undefined is not None:
        typer.echo(f"{found.metric} is undefined: {found.undefined}.")
    if found.by_target:
        table = Table("target", found.metric.removeprefix("std-"))
        for name, score in found.by_target.items():
            table.add_row(name, shown_score(score))
        Console().print(table)
