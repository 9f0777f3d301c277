"""The first section of the HTML report: the user's own runs."""

from __future__ import annotations

from collections.abc import Sequence

from gnnak.errors import counted
from gnnak.report import markup, plots
from gnnak.report.settings import Setting, Task, group_tasks
from gnnak.report.svg import COLOURS
from gnnak.training.records.results import Record

COMMAND = "gnnak train molecules.csv --smiles smiles --target logp"
HEADER = ("Validation", "Test", "Epochs", "s / epoch", "Total", "Peak MB", "Runs")
MOST = len(COLOURS)
"""Maximal number of settings of a task in the figures."""
FEW = 20
"""In a folder with at most this number of runs with the settings of the paper's tables,
these are the user's own runs as well."""


def your_runs_section(own: Sequence[Record], paper: Sequence[Record]) -> str:
    """Return the HTML section with the user's runs: scores, learning curves and cost.

    Args:
        own: Records of runs on the user's own data, or with settings that the paper's
            tables do not have; oldest first.
        paper: Records of runs with the settings of the paper's tables, oldest first;
            these are listed in a table that opens on a click.
    """
    parts = [part for task in group_tasks(own) for part in _task_parts(task)]
    if not own:
        there = "no run has been recorded in this folder"
        if paper:
            there = f"all {len(paper)} runs are for the paper's tables"
        text = f"Nothing of your own yet: {there}; to train on your own data, run"
        parts = [markup.command(text, COMMAND)]
    if paper:
        rows = [
            (f"{task.title}, {setting.name}", *_row(setting))
            for task in group_tasks(paper)
            for setting in task.settings
        ]
        header = ["Data set and setting", *HEADER]
        table = markup.plain_table("Runs with the paper's settings", header, rows)
        title = f"{len(paper)} runs with the settings of the paper's tables"
        parts.append(markup.details(title, [table]))
    return markup.section("your-runs", "Your runs", parts)


def _task_parts(task: Task) -> list[str]:
    """Return heading, table and figures of one task."""
    better = "lower is better" if task.lower_is_better else "higher is better"
    source = task.settings[0].newest.get("source")
    origin = f" Graphs from {source}." if source else ""
    runs, settings = counted(task.runs, "run"), counted(len(task.settings), "setting")
    note = f"Metric {task.metric} ({better}); {runs}, {settings}.{origin}"
    if len(task.settings) > 1:
        note += " The best validation score comes first."
    rows = [(setting.name, *_row(setting)) for setting in task.settings]
    return [
        markup.heading(task.title),
        markup.paragraph(note, soft=True),
        markup.plain_table(f"Runs on {task.title}", ["Setting", *HEADER], rows),
        markup.gallery(_figures(task)),
    ]


def _figures(task: Task) -> list[str]:
    shown = task.settings[:MOST]
    curves = {
        setting.name: setting.newest["curves"]["validation"]
        for setting in shown
        if setting.newest.get("curves", {}).get("validation")
    }
    left = len(task.settings) - len(shown)
    more = f" {counted(left, 'more setting')} left out." if left else ""
    figures = []
    if curves:
        label = f"validation {task.metric}"
        svg = plots.curves_figure(curves, task.title, label, task.lower_is_better)
        caption = f"{task.title}: {label} by epoch, newest run of a setting.{more}"
        figures.append(markup.figure(svg, caption))
    if len(shown) > 1:
        svg = plots.settings_figure(
            [setting.name for setting in shown],
            [setting.seconds for setting in shown],
            [setting.megabytes for setting in shown],
            task.title,
        )
        figures.append(markup.figure(svg, f"{task.title}: cost of training.{more}"))
    return figures


def _row(setting: Setting) -> tuple[str, ...]:
    """Return the texts of the columns in `HEADER`."""
    test, validation, newest = setting.test, setting.validation, setting.newest
    spread = "" if test.deviation is None else f" ± {test.deviation:.2g}"
    tested = any("test" in record["scores"] for record in setting.records)
    unknown = "undefined" if tested else ""
    return (
        "undefined" if validation is None else f"{validation:.4g}",
        unknown if test.mean is None else f"{test.mean:.4g}{spread}",
        f"best {newest['best_epoch'] + 1} of {newest['epochs']}",
        f"{setting.seconds:.3g}",
        _duration(setting.total),
        f"{setting.megabytes:,.0f}",
        str(len(setting.records)),
    )


def _duration(seconds: float) -> str:
    """Return a time in the unit that makes it short.

    >>> _duration(75.0), _duration(9000.0)
    ('75 s', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"
