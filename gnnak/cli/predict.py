"""`gnnak predict`: predict for new graphs with trained models."""

import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.progress import TextColumn, TimeRemainingColumn

from gnnak.cli.names import DATASETS, check_file, check_trained, examples, flag, option
from gnnak.cli.options import (
    DATA_DIR,
    GRAPH_FILES,
    JSON,
    MODULES,
    RAY,
    TRAINED_SMILES,
    MachineOptions,
    expanded,
    import_own,
    progress_bar,
)
from gnnak.errors import FileFormatError, OptionError, counted
from gnnak.training.processes.stopping import stoppable, stoppable_at_once
from gnnak.typing import check_choice

EXAMPLES = examples(
    "gnnak predict runs/molecules-gin-ak+-1b2c3d4e5f6a/best.ckpt new.csv -o out.csv",
    "gnnak predict seed0.ckpt seed1.ckpt seed2.ckpt new.csv -o out.csv",
    "gnnak predict best.ckpt graphs.g6 -o out.jsonl --embeddings states.npz",
    "gnnak predict my_model/ new.csv -o out.csv",
    "gnnak predict best.ckpt library.parquet -o out.parquet --resume",
    "gnnak predict best.ckpt minesweeper --nodes 1,2 -o out.csv",
)
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".npz")
"""Suffixes of files with predictions."""


@expanded
def predict(
    device: MachineOptions,
    files: list[Path] = typer.Argument(
        metavar="MODEL... DATA",
        help="One or more models: checkpoints, folders of save_pretrained, or zinc, "
        f"which is installed with gnnak. After them, the data: a {GRAPH_FILES}; or the "
        "name of a data set. Predictions of several models are averaged.",
    ),
    output: Path | None = option(
        "--output",
        "-o",
        help="File to write: .csv, .tsv, .jsonl, .parquet or .npz.",
        show_default="print CSV",
    ),
    embeddings: Path | None = option(
        help="Also write the states before the head, to this .npz file."
    ),
    resume: bool = flag(
        "--resume",
        help="Continue a command for a file or folder of molecules that was stopped or "
        "killed. If there is nothing to continue, begin.",
    ),
    smiles: str | None = TRAINED_SMILES,
    batch_size: int | None = option(
        min=1,
        help="Graphs per forward pass. Batches that do not fit into memory are split.",
        show_default="256",
    ),
    nodes: str | None = option(
        help="Of one graph: predict only for these nodes, numbers such as 0,5,7 or a "
        "file with one number per line.",
        show_default="all",
    ),
    data_dir: Path | None = DATA_DIR,
    modules: list[str] | None = MODULES,
    ray: str | None = RAY,
    as_json: bool = JSON,
) -> None:
    """Predict for every row of a file, in the order of the rows.

    Rows that are not graphs get no prediction and a reason in the column `error`. If no
    row can be predicted, the command fails, with exit code 2. A file or folder of
    molecules may be larger than the memory.
    """
    *checkpoints, data = files
    if not checkpoints:
        raise OptionError(
            f"got only {data}; give a checkpoint and then the data, as in: gnnak "
            "predict best.ckpt new.csv -o out.csv."
        )
    for path in checkpoints:
        if len(path.parts) != 2 or path.suffix == ".ckpt":  # no name on the hub
            check_trained(path)
    is_dataset = str(data).lower() in DATASETS and not data.exists()
    if not is_dataset:
        check_file(data)
    _check_outputs(output, embeddings, data)
    by_row = output is not None and output.suffix.lower() != ".npz" and not embeddings
    if resume and not by_row:
        raise OptionError(
            "--resume needs an output that is written row by row: give -o with a file "
            "that ends in .csv, .tsv, .jsonl or .parquet, and leave out --embeddings."
        )
    chosen = None if nodes is None else _node_numbers(nodes)
    with stoppable_at_once():
        import numpy as np

        from gnnak.backend import use_backend
        from gnnak.datasets import load_dataset
        from gnnak.datasets.own.molecules import molecule_files
        from gnnak.datasets.own.read import is_data_file
        from gnnak.graphs.readers.files import write_bytes
        from gnnak.training.prediction_files import fingerprints, npz_file, open_writer
        from gnnak.training.predictions import predict_parts
        from gnnak.training.schedule.cluster import connected
        from gnnak.training.trained import load

    import_own(modules)
    machine = device.machine()
    for path in checkpoints:
        if is_data_file(path):
            raise OptionError(
                f"{path} is a file with data, not a model; give the models first and "
                "one file with data last, as in: gnnak predict best.ckpt new.csv."
            )
    models = [load(path) for path in checkpoints]
    for model in models:
        if ray is None:
            model.to(machine.device)
        model.network.save_memory(recompute=False, max_copies=machine.max_copies)
    graphs: Any = data
    if is_dataset:
        seed = models[0].config.data.seed
        graphs = load_dataset(str(data).lower(), seed=seed, data_dir=data_dir).store
    states: list[np.ndarray] = []
    depends_on, wanted = None, embeddings is not None
    if by_row and output and (files := molecule_files(data)):
        if output.parent.samefile(data):
            told = f"the output {output} is in the folder to predict for"
            raise OptionError(f"{told}; give a file in another folder with -o.")
        given = {"--smiles": smiles, "--batch-size": batch_size}
        depends_on = fingerprints(models, files, **given)
    with (
        nullcontext() if ray is None else connected(ray, machine) as cluster,
        stoppable("go on with --resume" if depends_on else ""),
        use_backend(machine.backend),
        open_writer(output, models[0].info, depends_on, resume) as writer,
        progress_bar(TextColumn("{task.fields[n]} rows"), TimeRemainingColumn()) as bar,
    ):
        done = writer.done
        shown = bar.add_task(data.name, total=1.0, n=done.rows)
        options = batch_size, wanted, smiles, chosen, done.rows
        map_parts = map if cluster is None else cluster.map
        for part in predict_parts(models, graphs, *options, map_parts):
            writer.write(part)
            if part.predictions.embeddings is not None:
                states.append(part.predictions.embeddings)
            bar.update(shown, completed=part.rows.share, n=done.rows)
    if embeddings is not None:
        write_bytes(embeddings, npz_file(embeddings=np.concatenate(states)))
    good = done.rows - done.bad
    if as_json or good or not done.bad:
        _tell(output, len(models), done.predictions, done.bad, as_json)
    if done.bad and not good:
        place = "" if output is None else f" of {output}"
        raise FileFormatError(
            f"no row of {data} could be predicted; see the column error{place}."
        )


def _node_numbers(text: str) -> list[int]:
    path = Path(text)
    words = path.read_text().split() if path.is_file() else text.split(",")
    try:
        return [int(word) for word in words]
    except ValueError as error:
        raise OptionError(
            f"--nodes is {text!r}; give numbers, such as 0,5,7, or a file with one "
            "number per line."
        ) from error


def _check_outputs(output: Path | None, embeddings: Path | None, data: Path) -> None:
    if output is not None:
        _check_output(output, data, SUFFIXES)
    if embeddings is not None:
        _check_output(embeddings, data, (".npz",))
    if output is not None and output == embeddings:
        told = f"predictions and embeddings would both be written to {output}"
        raise OptionError(f"{told}; give two files.")


def _check_output(path: Path, data: Path, suffixes: Sequence[str]) -> None:
    check_choice(f"the suffix of {path}", path.suffix.lower(), suffixes)
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; give the path of a file.")
    if not path.parent.is_dir():
        raise FileFormatError(f"there is no folder {path.parent}; create it first.")
    if not os.access(path.parent, os.W_OK):
        raise FileFormatError(
            f"the folder {path.parent} cannot be written to; give another folder."
        )
    if path.exists() and data.exists() and path.samefile(data):
        raise OptionError(
            f"the output {path} is the file to predict for; give another file with -o."
        )


def _tell(
    output: Path | None, models: int, count: int, bad: int, as_json: bool
) -> None:
    have = "has" if bad == 1 else "have"
    if output is None:
        if bad:
            rows = f"{bad} of {counted(count, 'row')}"
            typer.echo(f"{rows} {have} no prediction.", err=True)
        return
    if as_json:
        typer.echo(json.dumps({"rows": count, "bad": bad, "output": str(output)}))
        return
    lost = f"; {bad} {have} no prediction, see the column error" if bad else ""
    mean = f", mean of {models} models" if models > 1 else ""
    typer.echo(f"{output}: {counted(count, 'row')}{mean}{lost}", err=True)
