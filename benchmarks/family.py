"""Measure time and memory of a training epoch on ZINC for every subgraph GNN.

Each model has the options that `gnnak train zinc --model NAME` gives it. If a model
fails, its error is printed and the next model is measured. With fewer graphs than ZINC
has, seconds are scaled up to an epoch with all graphs. Run

    python -m benchmarks.family [--models sun-gin,sswl+-gin] [--graphs 256] [--record]
"""

import argparse
import logging
from collections.abc import Sequence
from logging.handlers import BufferingHandler

from benchmarks.gpu_data import full_size
from benchmarks.markdown import RESULTS, markdown
from gnnak.datasets.record import Dataset
from gnnak.errors import GnnakError
from gnnak.models.factory import parse_name
from gnnak.models.members import MEMBERS
from gnnak.training.config.experiment import load_experiment
from gnnak.training.measure.bench import BenchOptions, bench
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import choose_parts
from gnnak.training.records.results import Record, append_record, read_records
from gnnak.training.run import is_captured

FILE = RESULTS / "family.jsonl"
MODELS = ("gin", "gin-ak", "gin-ak+", *(f"{name}-gin" for name in MEMBERS))
"""The models that are measured unless others are named: GIN alone, GNN-AK, GNN-AK+ and
all other subgraph GNNs, each with GIN as the base GNN."""


def measure(model: str, dataset: Dataset, options: BenchOptions) -> Record:
    """Train a model for a few epochs on ZINC, and return a record of time and memory.

    The entry `captured` says whether training steps were captured as CUDA graphs: the
    layers allow it, and no warning was logged that a capture failed.
    """
    config = load_experiment("zinc").config_for(model)
    parts = choose_parts(dataset, config.data.protocol, config.data.fold)
    captured = is_captured(config, dataset, parts, Machine())
    logger, logged = logging.getLogger("gnnak"), BufferingHandler(capacity=1000)
    logger.addHandler(logged)
    try:
        record = bench(config, dataset, Machine(), options)
    finally:
        logger.removeHandler(logged)
    failed = any("not captured" in line.getMessage() for line in logged.buffer)
    return record | {"captured": captured and not failed}


def family_costs() -> str:
    """Render the newest record of each model, on a GPU if there is one."""
    return markdown(
        ["model", "subgraphs", "width", "weights", "s an epoch", "peak MB", "measured"],
        lines(read_records(FILE)),
    )


def lines(records: Sequence[Record]) -> list[list[str]]:
    """Return the lines of the table: one per model, in the order of `MODELS`."""
    newest = {
        record["config"]["model"]["name"]: record
        for record in sorted(records, key=lambda r: r["accelerator"] == "cuda")
    }
    return [_line(newest[model]) for model in MODELS if model in newest]


def _line(record: Record) -> list[str]:
    options, peak = record["config"]["model"], record["peak_memory_mb"]
    form, chosen = parse_name(options["name"]), options["subgraphs"]
    has_subgraphs = form.uplifted and form.member != "id-fast"
    kind = (chosen["kind"] or form.kind) if has_subgraphs else "none"
    where = record["device"]
    if record["accelerator"] == "cuda":
        where += ", captured" if record["captured"] else ", not captured"
    if record["graphs"] < record["graphs_an_epoch"]:
        where += f", {record['graphs']:,} graphs, scaled"
    return [
        f"`{options['name']}`",
        kind,
        str(options["channels"]),
        f"{record['parameters']:,}",
        f"{record['seconds']['epoch']:.2f}",
        "-" if peak is None else f"{peak:,.0f}",
        where,
    ]


def main() -> None:
    """Measure the models of the command line and print, or also store, the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated")
    parser.add_argument("--graphs", type=int, help="training graphs, default: all")
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs")
    parser.add_argument("--record", action="store_true", help=f"append to {FILE}")
    given = parser.parse_args()
    dataset = full_size("zinc")
    for model in given.models.split(","):
        options = BenchOptions(given.graphs, given.epochs)
        try:
            record = measure(model, dataset, options)
        except GnnakError as error:
            print(f"{model}: {error}", flush=True)
            continue
        print(" | ".join(_line(record)), flush=True)
        if given.record:
            append_record(FILE, record)


if __name__ == "__main__":
    main()
