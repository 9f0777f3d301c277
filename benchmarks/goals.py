"""The table of time and memory of a training epoch, on the page `docs/speed.md`.

It compares the published code (the code of the paper's authors), our goals, and our
JSON records. The published code was measured on one NVIDIA H200 (16 CPU cores, float32)
with 8 data loader workers. With four settings it ran out of memory; the paper has no
numbers for these settings either.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.results import Record


@dataclass(frozen=True)
class Row:
    """One row of the table: a data set and a model."""

    title: str
    """Data set and model, as the table shows them."""
    experiment: str
    """Name of the experiment whose config is used."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Options that differ from the config of the experiment, with their values."""
    published: str = ""
    """Time and memory of the published code; empty if it was not measured."""
    goal: str = ""
    """The time and memory that we aim at; empty if there is no goal."""
    bf16: str = ""
    """The same for `train.precision=bf16`; empty = not measured in bf16."""
    graphs: int | None = None
    """Number of training graphs to measure on; None = all. The time is scaled up to all
    training graphs."""
    epochs: int = 3
    """Number of timed epochs."""
    compare: bool = False
    """Whether to measure also with `--plain`, without fused kernels and captured
    steps."""
    recompute: bool = False
    """Whether the backward pass recomputes activations (`--recompute`)."""

    @property
    def config(self) -> RunConfig:
        """The config of the training run that the row measures."""
        model = self.settings.get("model.name")
        return change(load_experiment(self.experiment).config_for(model), self.settings)

    @property
    def key(self) -> tuple[str, bool]:
        """The key of the row's records: the cell, and whether it is recomputed."""
        return self.config.cell(), self.recompute


def _zinc_drop(min_coverage: int) -> Row:
    return Row(
        f"ZINC, GIN-AK+-S, R = {min_coverage}",
        "zinc",
        {"model.name": "gin-ak+-s", "model.drop.min_coverage": min_coverage},
        published="6.5 s, 1 178 MB" if min_coverage == 3 else "",
        goal="below GIN-AK+",
        epochs=7,
    )


_ROWS: dict[str, Row] = {
    "zinc-gin": Row(
        "ZINC, GIN",
        "zinc",
        {"model.name": "gin"},
        published="2.7 s, 179 MB",
        goal="0.15 s",
        compare=True,
    ),
    "zinc-ak": Row(
        "ZINC, GIN-AK+",
        "zinc",
        published="4.7 s, 1 679 MB",
        goal="0.25 s, 600 MB",
        bf16="0.20 s, 400 MB",
        epochs=5,
        compare=True,
    ),
    "zinc-sswl": Row(
        "ZINC, SSWL+",
        "zinc",
        {"model.name": "sswl+-gin"},
        goal="0.6 s",
        bf16="0.45 s, 1 600 MB",
    ),
    **{f"zinc-drop-{r}": _zinc_drop(r) for r in range(1, 6)},
    "cifar-ak": Row(
        "CIFAR10 (2 hops), GIN-AK+",
        "cifar10",
        published="97 to 125 s, 27 200 MB",
        goal="13 s, 6 000 MB",
        bf16="8 s, 3 500 MB",
        graphs=1536,
        epochs=5,
        compare=True,
    ),
    "cifar-drop": Row(
        "CIFAR10 (2 hops), GIN-AK+-S, R = 3",
        "cifar10",
        {"model.name": "gin-ak+-s"},
        published="66 to 80 s, 5 900 MB",
        goal="4.5 s, 3 000 MB",
        bf16="3.2 s",
        graphs=1536,
        epochs=7,
    ),
    "pattern-ak": Row(
        "PATTERN (random walks), GIN-AK+",
        "pattern",
        goal="11 s",
        bf16="7 s, 2 500 MB",
        graphs=640,
        epochs=5,
    ),
    "cifar-pna": Row(
        "CIFAR10 (2 hops), PNA*-AK+",
        "cifar10",
        {"model.name": "pna*-ak+"},
        published="out of memory",
        goal="70 s",
        bf16="45 s",
        graphs=256,
        epochs=2,
    ),
    "cifar-pna-recompute": Row(
        "CIFAR10 (2 hops), PNA*-AK+, recomputed",
        "cifar10",
        {"model.name": "pna*-ak+"},
        published="out of memory",
        graphs=256,
        epochs=2,
        recompute=True,
    ),
    "pattern-pna": Row(
        "PATTERN (random walks), PNA*-AK+",
        "pattern",
        {"model.name": "pna*-ak+"},
        published="out of memory",
        graphs=256,
        epochs=2,
        recompute=True,
    ),
    "cifar-k3": Row(
        "CIFAR10 (3 hops), GIN-AK+",
        "cifar10",
        {"model.subgraphs.num_hops": 3},
        published="out of memory",
        graphs=1280,
        epochs=2,
        recompute=True,
    ),
    "counting-ppgn": Row(
        "counting, PPGN-AK+",
        "counting",
        {"model.name": "ppgn-ak+"},
        published="out of memory",
        graphs=512,
        epochs=2,
        recompute=True,
    ),
}


def in_bf16(row: Row) -> Row:
    """Return the row that measures the same in bf16."""
    settings = row.settings | {"train.precision": "bf16"}
    title, goal = f"{row.title}, bf16", row.bf16
    return replace(
        row, title=title, settings=settings, goal=goal, bf16="", compare=False
    )


ROWS = _ROWS | {f"{name}-bf16": in_bf16(row) for name, row in _ROWS.items() if row.bf16}
"""All rows of the table, by their names for `benchmarks.gpu --rows`."""


HEADER = [
    "one epoch of",
    "published code",
    "goal",
    "ours",
    "plain / fast",
    "kernel time",
    "measured on",
    "commit",
]
"""Titles of the columns that `lines` fills. `plain / fast` is the time of an epoch with
`--plain` divided by the time without it. `kernel time` is the time of all GPU kernels
of a step divided by the time of the step."""


def lines(records: Iterable[Record]) -> list[list[str]]:
    """Return the cells of all rows of the table of GPU benchmarks, as text.

    Each row shows the newest record of its benchmark.

    Args:
        records: JSON records of `gnnak bench --record` and `benchmarks.gpu`, oldest
            first.
    """
    newest = {
        (record["cell"], record["recompute"]): record
        for record in records
        if record["kind"] == "bench"
        and record["accelerator"] == "cuda"
        and record["fast"]
    }
    return [
        [row.title, row.published, row.goal, *_ours(newest.get(row.key))]
        for row in ROWS.values()
    ]


def short_lines(records: Iterable[Record]) -> list[list[str]]:
    """Return title, published, ours and ours in bf16, of rows that were measured."""
    by_title = {title: rest for title, *rest in lines(records)}
    found = []
    for row in _ROWS.values():
        published, _, ours, *_ = by_title[row.title]
        _, _, narrow, *_ = by_title.get(in_bf16(row).title, ["", "", ""])
        if published.endswith("MB") and ours:
            found.append([row.title, published, ours, narrow])
    return found


def _ours(record: Record | None) -> list[str]:
    if record is None:
        return [""] * 5
    seconds, memory = record["seconds"]["epoch"], record["peak_memory_mb"]
    ratio, kernels = record["ratio"], record["kernels"]
    return [
        f"{_figure(seconds)} s, {_thousands(memory)} MB",
        "" if ratio is None else f"{ratio:.1f} x",
        "" if kernels is None else f"{kernels['share']:.0%}",
        _measured_on(record),
        record["commit"],
    ]


def _measured_on(record: Record) -> str:
    some, total = record["graphs"], record["graphs_an_epoch"]
    told = [record["device"]]
    if some != total:
        told.append(f"{_thousands(some)} of {_thousands(total)} graphs, scaled")
    if record["recompute"]:
        told.append("recomputed")
    return ", ".join(told)


def _figure(seconds: float) -> str:
    digits = 3 if seconds < 1 else 2 if seconds < 10 else 1
    return f"{seconds:.{digits}f}"


def _thousands(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


BANDWIDTH = 4.8
"""Terabytes per second that the memory of an H200 can read or write."""


def traffic_lines(records: list[Record]) -> list[list[str]]:
    """Return table lines with the bytes of one training step of each row.

    Args:
        records: JSON records of `benchmarks.traffic`, oldest first.
    """
    newest = {record["row"]: record for record in records}
    lines = []
    for name in [name for name in ROWS if name in newest]:
        record = newest[name]
        gigabytes, milliseconds = (
            record[key] / 1000 for key in ("megabytes", "microseconds")
        )
        least = gigabytes * record["steps_an_epoch"] / BANDWIDTH / 1000
        of_kernels = milliseconds * record["steps_an_epoch"] / 1000
        lines.append(
            [
                ROWS[name].title,
                f"{milliseconds:.2f} ms",
                f"{gigabytes:.2f} GB",
                f"{gigabytes / milliseconds:.1f} TB/s",
                f"{_figure(of_kernels)} s",
                f"{_figure(least)} s",
                ROWS[name].goal.split(",")[0],
            ]
        )
    return lines


def operation_lines(records: list[Record], names: tuple[str, ...]) -> list[list[str]]:
    """Return table lines with the slowest operations of one training step.

    Args:
        records: JSON records of `benchmarks.traffic`, oldest first.
        names: Names of the rows in `ROWS` whose newest records are used.
    """
    newest = {record["row"]: record for record in records}
    return [
        [
            ROWS[name].title,
            f"`{operation['name'].removeprefix('aten::')}`",
            f"{operation['calls']}",
            f"{operation['microseconds'] / 1000:.2f} ms",
            f"{operation['megabytes'] / 1000:.2f} GB",
            f"{operation['megabytes'] / operation['microseconds']:.1f} TB/s",
            f"{operation['microseconds'] / newest[name]['microseconds']:.0%}",
        ]
        for name in names
        if name in newest
        for operation in [o for o in newest[name]["operations"] if o["calls"]][:8]
    ]
