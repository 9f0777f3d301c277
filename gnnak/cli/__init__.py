"""The command line: one file a command."""

import sys
from typing import NoReturn

import typer

from gnnak import __version__
from gnnak.cli import datasets, demo, evaluate, extract, report, table, train, wl
from gnnak.errors import GnnakError
from gnnak.training.stopping import Stopped

app = typer.Typer(
    name="gnnak",
    help="Uplift any GNN from stars to rooted subgraphs (GNN-AK and GNN-AK+).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gnnak {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        help="Show the version and exit.",
        callback=_show_version,
        is_eager=True,
    ),
) -> None:
    """Options of the program itself."""


app.command(name="demo", epilog=demo.EXAMPLES)(demo.demo)
app.command(name="train", epilog=train.EXAMPLES)(train.train)
app.command(name="evaluate", epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(name="table", epilog=table.EXAMPLES)(table.table)
app.command(name="report", epilog=report.EXAMPLES)(report.report)
app.command(name="extract", epilog=extract.EXAMPLES)(extract.extract)
app.add_typer(datasets.app, name="datasets")
app.add_typer(wl.app, name="wl")


def main() -> None:
    """Run the command line; a wrong input is one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except GnnakError as error:
        _fail(str(error), 2)
    except OSError as error:
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)
    except Stopped as stopped:
        _fail(f"stopped by {stopped}; go on with --resume.", stopped.exit_code)
    except typer.Abort:
        _fail("interrupted", 130)
    except Exception as error:
        # What typer raises for a wrong option or command knows its own sentence.
        tell = getattr(error, "format_message", None)
        if tell is None:
            raise
        _fail(tell(), getattr(error, "exit_code", 2))
    sys.exit(code)


def _fail(sentence: str, code: int) -> NoReturn:
    """Say what is wrong, if anything is to be said beside the help, and exit."""
    if sentence.strip():
        typer.echo(f"error: {sentence}", err=True)
    sys.exit(code)
