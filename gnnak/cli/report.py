"""`gnnak report`: all results as one HTML page."""

import json
from pathlib import Path

import typer
from rich.console import Console

from gnnak.cli.names import examples, flag, option
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once

EXAMPLES = examples(
    "gnnak report",
    "gnnak report --results results --out public/index.html",
    "gnnak report --json",
)


def report(
    results: Path | None = option(
        help="Folder with the records of all runs.", show_default="results"
    ),
    runs: Path | None = option(
        help="Folder with the records of runs on your own data.",
        show_default="runs, or none with --results",
    ),
    out: Path = typer.Option(Path("report.html"), help="Where to write the page."),
    as_json: bool = flag("--json", help="Print one JSON object instead of a line."),
) -> None:
    """Write one HTML page with all results.

    The page begins with your own runs: scores, learning curves, time and memory.
    The paper's tables with our numbers and other measurements follow.

    Styles and pictures are inline: the page loads no other file.
    """
    folder = results or Path("results")
    own = Path("runs") if runs is None and results is None else runs
    has_runs = own is not None and any(own.glob("runs*.jsonl"))
    if runs is not None and not has_runs:
        raise OptionError(
            f"{runs} has no records of runs on your own data; give the folder of the "
            "option --runs of gnnak train."
        )
    if not folder.is_dir() and (results is not None or not has_runs):
        raise OptionError(
            f"there is no folder {folder}; give one with records with --results, or "
            "train first, as in: gnnak train molecules.csv --target logp."
        )
    if out.suffix not in (".html", ".htm"):
        raise OptionError(f"--out is {out}; end it in .html.")
    with stoppable_at_once():
        from gnnak.report.page import write_report

    with Console(stderr=True).status("writing the report"):
        write_report(folder, out, own)
    if as_json:
        typer.echo(json.dumps({"page": str(out), "bytes": out.stat().st_size}))
    else:
        typer.echo(f"Report: {out}")
