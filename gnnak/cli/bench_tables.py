"""What `gnnak bench` shows."""

from collections.abc import Callable, Sequence

from rich.table import Table

from gnnak.training.measure.phases import PHASES
from gnnak.training.results import Record


def _seconds(phase: str) -> Callable[[Record], str]:
    return lambda record: _optional(record["seconds"].get(phase), ".3f")


LINES: dict[str, Callable[[Record], str]] = {
    "seconds an epoch": _seconds("epoch"),
    **{f"  {phase}, step by step": _seconds(phase) for phase in PHASES},
    "seconds of evaluation": _seconds("evaluation"),
    "graphs a second": lambda r: f"{r['graphs_per_second']:,.0f}",
    "peak memory, MB": lambda r: _optional(r["peak_memory_mb"], ",.0f"),
    "kernels' share": lambda r: _optional((r["kernels"] or {}).get("share"), ".0%"),
    "plain / fast": lambda r: _optional(r["ratio"], ".2f"),
}
"""What is told of a record; lines that are empty for all records are left out."""


def costs_table(records: Sequence[Record]) -> Table:
    """One column a record."""
    first = records[0]
    data, model = (first["config"][room]["name"] for room in ("data", "model"))
    if first.get("what") == "nodes":
        data = "4-regular graphs"
    table = Table("", title=f"{data}, {model}, {first['device']}")
    for record in records:
        table.add_column(_column(record), justify="right", no_wrap=True)
    for name, tell in LINES.items():
        cells = [tell(record) for record in records]
        if any(cells):
            table.add_row(name, *cells)
    return table


def remark(record: Record) -> str:
    """What is to be said below the table."""
    some, total = record["graphs"], record["graphs_an_epoch"]
    told = f"{record['parameters']:,} weights"
    if some != total:
        told += f"; scaled from {some:,} to {total:,} graphs"
    if record["ratio"] is not None and record["accelerator"] != "cuda":
        told += "; without a GPU both paths are the same, and their ratio is noise"
    return told


def kernels_table(record: Record) -> Table:
    """The kernels that take the most time in a step."""
    kernels = record["kernels"]
    table = Table("kernel", title=f"Kernels of a step, {_column(record)}")
    table.add_column("calls", justify="right")
    table.add_column("µs", justify="right")
    for kernel in kernels["top"]:
        name, calls = kernel["name"], kernel["calls"]
        table.add_row(name, f"{calls:g}", f"{kernel['microseconds']:,.0f}")
    others = kernels["microseconds"] - sum(k["microseconds"] for k in kernels["top"])
    left = kernels["calls"] - sum(k["calls"] for k in kernels["top"])
    table.add_row("all others", f"{left:g}", f"{others:,.0f}")
    return table


def _column(record: Record) -> str:
    if record["kind"] == "growth":
        return f"{record['what']} {record['value']}"
    return "fast" if record["fast"] else "plain"


def _optional(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
