"""The command line: one file a command."""

import sys

import typer
from rich.console import Console

from gnnak import __version__
from gnnak.cli import demo
from gnnak.errors import GnnakError

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


def main() -> None:
    """Run the command line; a wrong input is one line and exit code 2."""
    try:
        app()
    except GnnakError as error:
        Console(stderr=True).print(f"[red]error:[/red] {error}", soft_wrap=True)
        sys.exit(2)
