"""Build the section of the HTML report on the time and memory of a training epoch."""

from __future__ import annotations

from collections.abc import Sequence

from gnnak.models.factory import parse_name
from gnnak.report import markup, plots
from gnnak.training.records.results import Record

HEADER = ["Run", "Device", "Path", "Seconds an epoch", "Peak MB", "Graphs a second"]


def costs_section(records: Sequence[Record]) -> str:
    """Return the HTML section on the time and memory of a training epoch.

    The section has a table with the newest measurement of each model on each data set
    and device, and plots of time and memory against a growing quantity, such as the
    number of channels.

    Args:
        records: JSON records written by `gnnak bench`, oldest first. Records of kind
            "bench" go into the table, those of kind "growth" (from `gnnak bench
            --grow`) into the plots.
    """
    parts = []
    measured = [record for record in records if record.get("kind") == "bench"]
    if measured:
        rows = list({(key := _row(r))[:3]: key for r in measured}.values())
        table = markup.plain_table("What an epoch costs", HEADER, rows)
        note = "Epochs that were measured on a part of the graphs are scaled to all."
        parts += [table, markup.paragraph(note, soft=True)]
    growths: dict[str, list[Record]] = {}
    for record in records:
        if record.get("kind") == "growth":
            growths.setdefault(record["what"], []).append(record)
    if growths:
        parts.append(markup.heading("How cost grows", "growth"))
        figures = [
            markup.figure(plots.growth_figure(of, what), f"Training, by {what}.")
            for what, of in growths.items()
        ]
        parts.append(markup.gallery(figures))
    if not parts:
        parts = [markup.paragraph("Nothing has been measured yet.", soft=True)]
    return markup.section("cost", "What an epoch costs", parts)


def _row(record: Record) -> tuple[str, ...]:
    config, memory = record["config"], record["peak_memory_mb"]
    data, model = config["data"], config["model"]
    words = [data["name"], data["target"], model["name"]]
    form = parse_name(model["name"])
    if form.sampled:
        words.append(f"R = {model['drop']['min_coverage']}")
    elif form.uplifted and model["subgraphs"]["kind"] == "egonets":
        words.append(f"k = {model['subgraphs']['num_hops']}")
    return (
        ", ".join(word for word in words if word),
        record["device"],
        "fast" if record["fast"] else "plain",
        f"{record['seconds']['epoch']:.3g}",
        "" if memory is None else f"{memory:,.0f}",
        f"{record['graphs_per_second']:,.0f}",
    )
