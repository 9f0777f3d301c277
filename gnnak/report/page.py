"""The HTML report: compute rows and figures for the template `page.html`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gnnak.errors import GnnakError, counted
from gnnak.graphs.readers.files import make_folder, write_bytes
from gnnak.models.factory import parse_name
from gnnak.report import pictures
from gnnak.report.cells import load_table, table_names
from gnnak.report.tables import FilledTable, fill_tables
from gnnak.training.config.experiment import (
    experiment_names,
    flat,
    load_experiment,
    read_only,
)
from gnnak.training.config.options import change
from gnnak.training.config.run_config import PER_RUN, RunConfig
from gnnak.training.records.lookup import RunRecords, read_statistics, summarise
from gnnak.training.records.results import Record, environment, read_records

MOST = len(pictures.COLOURS)
"""Maximal number of settings in one figure."""
FEW = 20
"""If at most this many runs belong to the paper's tables, the report shows all runs as
the user's own."""
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    undefined=StrictUndefined,
)
"""Reads `page.html` from the folder of this module; inserted texts are escaped."""
DROP = "case device strategy min_coverage share step_seconds step_mb"
"""Keys that each record of `subgraph_drop.jsonl` must have."""
QUALITY = "model target epochs seed test_mae"
"""Keys that each record of `drop_quality.jsonl` must have."""
Rows = Sequence[tuple[str, ...]]


class Figure(NamedTuple):
    svg: str
    caption: str


def report_page(results: Path, own_runs: Path | None = None) -> str:
    """Return the HTML report on a results folder; the page loads no other file."""
    runs = RunRecords.read(results, *([] if own_runs is None else [own_runs]))
    statistics = read_statistics(results)
    tables = fill_tables(map(load_table, table_names()), runs, statistics)
    drops = read_records(results / "subgraph_drop.jsonl", DROP.split())
    quality = read_records(results / "drop_quality.jsonl", QUALITY.split())
    extraction = read_records(results / "extraction.jsonl", ("case", "seconds"))
    bench = read_records(results / "bench.jsonl")
    own, paper = _own_and_paper(tables, runs)
    extracted = list({record["case"]: record for record in extraction}.values())
    begun = [each for each in tables if any(c.ours for row in each.rows for c in row)]
    others = [each for each in tables if each not in begun]
    return TEMPLATES.get_template("page.html").render(
        summary=_summary(tables, own),
        runs_header=HEADER,
        own_tasks=[_shown_task(task) for task in group_tasks(own)],
        paper_runs=len(paper),
        paper_rows=[
            (f"{task.title}, {setting.name}", *setting.texts)
            for task in group_tasks(paper)
            for setting in task.settings
        ],
        tables=begun,
        other_tables=others,
        other_count=counted(len(others), "table"),
        curves=_curves(paper),
        drops=_drops(drops),
        drop_errors=_drop_errors(quality),
        egonets=pictures.egonets_figure(),
        extraction=_extraction_rows(extracted),
        extraction_svg=pictures.extraction_figure(extracted) if extracted else "",
        costs=cost_rows(bench),
        growth=growth_figures(bench),
        versions=_versions([*runs.records, *drops, *quality, *extraction, *bench]),
    )


def write_report(results: Path, out: Path, own_runs: Path | None = None) -> None:
    content = report_page(results, own_runs).encode()
    make_folder(out.parent)
    write_bytes(out, content)


def _own_and_paper(
    tables: list[FilledTable], runs: RunRecords
) -> tuple[list[Record], list[Record]]:
    """Divide records into the user's own and those for the paper's tables."""
    plans = [cell.plan for filled in tables for cell in filled.table.cells()]
    found = [runs.any_length(plan.config) for plan in plans if plan]
    of_tables = {id(record) for records in found for record in records}
    if len(of_tables) <= FEW:
        return runs.records, []
    paper = [record for record in runs.records if id(record) in of_tables]
    return [r for r in runs.records if id(r) not in of_tables], paper


def _summary(tables: list[FilledTable], own: list[Record]) -> str:
    cells = [cell for t in tables for row in t.rows for cell in row if cell.cell.plan]
    done = sum(1 for cell in cells if cell.ours)
    now = environment()
    return (
        f"{counted(len(own), 'run')} of your own; {done} of {len(cells)} cells of the "
        "paper's tables have a figure of ours. "
        f"Made {now['time']} by gnnak {now['versions']['gnnak']}"
        f" ({now['commit'] or 'unknown commit'})."
    )


def _shown_task(task: Task) -> dict[str, Any]:
    better = "lower is better" if task.lower_is_better else "higher is better"
    source = task.settings[0].records[-1].get("source")
    origin = f" Graphs from {source}." if source else ""
    runs, settings = counted(task.runs, "run"), counted(len(task.settings), "setting")
    note = f"Metric {task.metric} ({better}); {runs}, {settings}.{origin}"
    if len(task.settings) > 1:
        note += " The best validation score comes first."
    rows = [(setting.name, *setting.texts) for setting in task.settings]
    figures = _task_figures(task)
    return {"title": task.title, "note": note, "rows": rows, "figures": figures}


def _task_figures(task: Task) -> list[Figure]:
    shown = task.settings[:MOST]
    runs = {setting.name: setting.records[-1] for setting in shown}
    left = len(task.settings) - len(shown)
    more = f" {counted(left, 'more setting')} left out." if left else ""
    figures = _curves_figure(runs, task.title, f"newest run of a setting.{more}")
    if len(shown) > 1:
        svg = pictures.settings_figure(
            list(runs),
            [setting.seconds for setting in shown],
            [setting.megabytes for setting in shown],
            task.title,
        )
        figures.append(Figure(svg, f"{task.title}: cost of training.{more}"))
    return figures


def _curves_figure(runs: Mapping[str, Record], title: str, note: str) -> list[Figure]:
    """Plot learning curves in one figure; return [figure], or [] if there are none."""
    found = {name: r.get("curves", {}).get("validation") for name, r in runs.items()}
    curves = {name: curve for name, curve in found.items() if curve}
    if not curves:
        return []
    newest = list(runs.values())[-1]
    label = f"validation {newest['metric']}"
    svg = pictures.curves_figure(curves, title, label, newest["lower_is_better"])
    return [Figure(svg, f"{title}: {label} by epoch, {note}")]


def _curves(records: Sequence[Record]) -> list[Figure]:
    tasks: dict[str, dict[str, Record]] = {}
    for record in records:
        if record.get("curves", {}).get("validation"):
            data = record["config"]["data"]
            words = [data["name"], data.get("target"), data["protocol"]]
            task = ", ".join(word for word in words if word and word != "split")
            tasks.setdefault(task, {})[record["cell"]] = record
    figures = []
    for task, newest in tasks.items():
        shown = {_label(record): record for record in [*newest.values()][-MOST:]}
        left = len(newest) - MOST
        more = f" {left} older settings are left out." if left > 0 else ""
        figures += _curves_figure(shown, task, f"one run a setting.{more}")
    return figures


def _label(record: Record) -> str:
    """Return a run's model, and the settings that differ from its experiment."""
    options: dict[str, Any] = record["config"]
    name, settings = str(options["model"]["name"]), []
    experiment = record.get("experiment") or options["data"]["name"]
    try:
        config = change(RunConfig(), options)
        if experiment in experiment_names():
            settings = load_experiment(experiment).settings(config)
    except GnnakError:
        return f"{name} ({record['hash']})"
    known = ("model.name=", "train.seed=", "data.")
    shown = [text for text in settings if not text.startswith(known)]
    return f"{name} ({', '.join(shown)})" if shown else name


def _drops(records: Sequence[Record]) -> list[Figure]:
    keys = ("case", "device", "strategy", "min_coverage")
    newest = {tuple(record[key] for key in keys): record for record in records}
    groups: dict[str, list[Record]] = {}
    for record in newest.values():
        groups.setdefault(f"{record['case']}, {record['device']}", []).append(record)
    caption = (
        "Each point is labelled with R, the minimal number of sampled subgraphs that "
        "cover a node; the dashed line is training with all subgraphs."
    )
    return [
        Figure(pictures.drop_figure(of, title), f"{title}. {caption}")
        for title, of in groups.items()
    ]


def _drop_errors(records: Sequence[Record]) -> Rows:
    runs: dict[tuple[Any, ...], dict[bool, Record]] = {}
    for record in records:
        model = parse_name(record["model"]).unsampled_name
        same = [record[name] for name in ("target", "epochs", "seed")]
        key = (*same, model, record.get("device"))
        runs.setdefault(key, {})[record.get("drop") is not None] = record
    rows = []
    for (target, epochs, _, model, _), pair in runs.items():
        if len(pair) == 2:
            full, few = pair[False]["test_mae"], pair[True]["test_mae"]
            figures = (f"{full:.4f}", f"{few:.4f}", f"{few / full - 1:+.0%}")
            rows.append((str(target), str(model), str(epochs), *figures))
    return rows


def _extraction_rows(records: Sequence[Record]) -> Rows:
    rows = []
    for record in records:
        taken = record["seconds"]
        theirs = f"{taken['pyg']:.3f}" if "pyg" in taken else ""
        ratio = f"{taken['pyg'] / taken['gnnak']:.0f} x" if "pyg" in taken else ""
        rows.append((record["case"], f"{taken['gnnak']:.3f}", theirs, ratio))
    return rows


def cost_rows(records: Sequence[Record]) -> Rows:
    """Return one row per benchmark: the cost of an epoch, from the newest record."""
    rows = [_cost_row(record) for record in records if record.get("kind") == "bench"]
    return list({row[:3]: row for row in rows}.values())


def _cost_row(record: Record) -> tuple[str, ...]:
    config, memory = record["config"], record["peak_memory_mb"]
    data, model = config["data"], config["model"]
    words = [data["name"], data["target"], model["name"]]
    form = parse_name(model["name"])
    if form.sampled:
        words.append(f"R = {model['drop']['min_coverage']}")
    elif form.uplifted and (model["subgraphs"]["kind"] or form.kind) == "egonets":
        words.append(f"k = {model['subgraphs']['num_hops']}")
    return (
        ", ".join(word for word in words if word),
        record["device"],
        "fast" if record["fast"] else "plain",
        f"{record['seconds']['epoch']:.3g}",
        "" if memory is None else f"{memory:,.0f}",
        f"{record['graphs_per_second']:,.0f}",
    )


def growth_figures(records: Sequence[Record]) -> list[Figure]:
    growths: dict[str, list[Record]] = {}
    for record in records:
        if record.get("kind") == "growth":
            growths.setdefault(record["what"], []).append(record)
    return [
        Figure(pictures.growth_figure(of, what), f"Training, by {what}.")
        for what, of in growths.items()
    ]


def _versions(records: Iterable[Record]) -> Rows:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        versions = record.get("versions", {})
        key = (
            f"{record.get('device', '?')}, {record.get('cores', '?')} cores",
            str(record.get("commit") or "unknown"),
            ", ".join(f"{name} {number}" for name, number in versions.items()),
        )
        groups.setdefault(key, []).append(record)
    return [
        (*key, str(len(group)), max(str(r.get("time", "")) for r in group))
        for key, group in groups.items()
    ]


TASK = ("data.name", "data.target", "data.own.path", "data.own.targets")
SAME = (*PER_RUN, "data.seed", "data.own.labels", "data.own.smiles")
"""Options that may differ between the runs of one `Setting`."""
HEADER = ["Validation", "Test", "Epochs", "s / epoch", "Total", "Peak MB", "Runs"]


@dataclass(frozen=True)
class Setting:
    """Runs whose options are equal except for seed and fold."""

    name: str
    """The model's name, and the options in which runs on the same task differ."""
    records: tuple[Record, ...]
    """The newest record of each seed and fold; the newest of all is the last."""

    @property
    def validation(self) -> float | None:
        scores = [record["scores"]["validation"] for record in self.records]
        known = [score for score in scores if score is not None]
        return fmean(known) if known else None

    @property
    def seconds(self) -> float:
        return summarise(self.records, "seconds").mean or 0.0

    @property
    def megabytes(self) -> float:
        return max(record["peak_memory_mb"]["train"] for record in self.records)

    @property
    def texts(self) -> tuple[str, ...]:
        test, validation = summarise(self.records), self.validation
        newest = self.records[-1]
        spread = "" if test.deviation is None else f" ± {test.deviation:.2g}"
        tested = any("test" in record["scores"] for record in self.records)
        unknown = "undefined" if tested else ""
        total = sum(record["seconds"].get("total", 0.0) for record in self.records)
        return (
            "undefined" if validation is None else f"{validation:.4g}",
            unknown if test.mean is None else f"{test.mean:.4g}{spread}",
            f"best {newest['best_epoch'] + 1} of {newest['epochs']}",
            f"{self.seconds:.3g}",
            _duration(total),
            f"{self.megabytes:,.0f}",
            str(len(self.records)),
        )


@dataclass(frozen=True)
class Task:
    """A data set with its targets and metric, and the settings that were trained."""

    title: str
    own_data: bool
    """Whether the data are the user's own, not a data set of gnnak."""
    metric: str
    lower_is_better: bool
    settings: tuple[Setting, ...]
    """The settings, sorted by validation score, the best first."""

    @property
    def runs(self) -> int:
        return sum(len(setting.records) for setting in self.settings)


def group_tasks(records: Iterable[Record]) -> list[Task]:
    groups: dict[tuple[Any, ...], list[tuple[Record, dict[str, Any]]]] = {}
    for record in records:
        options = _options(record)
        key = (*(str(options.get(name)) for name in TASK), record["metric"])
        # Removing and inserting a key moves it to the end.
        groups[key] = [*groups.pop(key, []), (record, options)]
    tasks = [_task(group) for group in reversed(groups.values())]
    return sorted(tasks, key=lambda task: not task.own_data)


def _task(group: Sequence[tuple[Record, dict[str, Any]]]) -> Task:
    record, options = group[-1]
    targets = options.get("data.own.targets") or [options.get("data.target")]
    named = ", ".join(str(target) for target in targets if target)
    lower = bool(record["lower_is_better"])

    def rank(setting: Setting) -> tuple[bool, float]:
        score = setting.validation
        return score is None, (score or 0.0) * (1 if lower else -1)

    return Task(
        f"{options['data.name']}: {named}" if named else str(options["data.name"]),
        options.get("data.own.path") is not None,
        record["metric"],
        lower,
        tuple(sorted(_settings(group), key=rank)),
    )


def _settings(group: Sequence[tuple[Record, dict[str, Any]]]) -> list[Setting]:
    names = dict.fromkeys(name for _, options in group for name in options)
    differing = []
    for name in names:
        # A model that ignores an option does not have it; data options may be absent.
        missing = name.startswith("model.")
        having = [o for _, o in group if name in o or not missing]
        if name not in SAME and len({str(o.get(name)) for o in having}) > 1:
            differing.append(name)
    settings: dict[str, dict[tuple[Any, ...], Record]] = {}
    for record, options in group:
        words = [
            f"{name.split('.')[-1]}={options.get(name)}"
            for name in differing
            if name != "model.name" and options.get(name) is not None
        ]
        runs = settings.setdefault(", ".join([options["model.name"], *words]), {})
        key = (record["seed"], record.get("fold"))
        runs.pop(key, None)
        runs[key] = record
    return [Setting(name, tuple(runs.values())) for name, runs in settings.items()]


def _options(record: Record) -> dict[str, Any]:
    """Return a run's options by dotted name, without those that the model ignores."""
    try:
        return read_only(change(RunConfig(), record["config"]))
    except GnnakError:
        return flat(record["config"])


def _duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    >>> _duration(75.0), _duration(9000.0)
    ('75 s', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"
