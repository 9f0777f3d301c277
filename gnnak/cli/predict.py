"""`gnnak predict`: predict for new graphs with trained models."""

from pathlib import Path
from typing import Annotated

import typer

from gnnak.cli.options import AcceleratorOption, Json, MaxCopies, Modules, Plain
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once

EXAMPLES = """
Examples:

    gnnak predict runs/molecules-gin-ak+-1b2c3d4e5f6a/best.ckpt new.csv -o out.csv

    gnnak predict seed0.ckpt seed1.ckpt seed2.ckpt new.csv -o out.csv

    gnnak predict best.ckpt graphs.g6 -o out.jsonl --embeddings states.npz

    gnnak predict my_model/ new.csv -o out.csv
"""


def predict(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL... DATA",
            help="One or more models: checkpoints, folders of save_pretrained, or "
            "zinc, which is installed with gnnak. After them, the data: a CSV, npz, "
            "graph6, JSON, PyG or edge list file (text files also as .gz), or a "
            "folder of graphs. "
            "Predictions of several models are averaged.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .csv, .tsv, .jsonl or .npz.",
            show_default="print CSV",
        ),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(help="Also write the states before the head, to this .npz file."),
    ] = None,
    smiles: Annotated[
        str | None,
        typer.Option(help="Column with SMILES strings.", show_default="as in training"),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Graphs per forward pass. Batches that do not fit into memory are "
            "split.",
            show_default="256",
        ),
    ] = None,
    modules: Modules = None,
    accelerator: AcceleratorOption = "auto",
    max_copies: MaxCopies = None,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Predict for every row of a file, in its order.

    Rows that are not graphs get no prediction and a reason in the column `error`. If no
    row can be predicted, the command fails, with exit code 2.
    """
    if len(files) < 2:
        raise OptionError(
            f"got only {files[0]}; give a checkpoint and then the data, as in: gnnak "
            "predict best.ckpt new.csv -o out.csv."
        )
    with stoppable_at_once():
        from gnnak.cli.options import import_own
        from gnnak.cli.predict_run import Task, run_predict
        from gnnak.training.processes.machine import Machine

    for module in modules or []:
        import_own(module)
    machine = Machine(accelerator, max_copies=max_copies, fast=not plain)  # type: ignore[arg-type]
    task = Task(files[:-1], files[-1], output, embeddings, smiles, batch_size)
    run_predict(task, machine, as_json)
