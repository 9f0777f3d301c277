"""The Typer application with all commands of `gnnak`."""

import typer

from gnnak import __version__
from gnnak.cli import (
    bench,
    brec,
    datasets,
    demo,
    evaluate,
    extract,
    predict,
    report,
    sweep,
    table,
    train,
    wl,
)
from gnnak.cli.names import examples, typer_app

EXAMPLES = examples("gnnak demo", "gnnak train triangles", "gnnak table simulation")

UPLIFT = "Uplift any GNN from stars to rooted subgraphs (GNN-AK and GNN-AK+)."
app = typer_app(UPLIFT, EXAMPLES, "gnnak")


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
    """Define the options that `gnnak` takes without a command."""


app.command(name="demo", epilog=demo.EXAMPLES)(demo.demo)
app.command(name="train", epilog=train.EXAMPLES)(train.train)
app.command(name="sweep", epilog=sweep.EXAMPLES)(sweep.sweep)
app.command(
    name="evaluate",
    epilog=evaluate.EXAMPLES,
    context_settings={"allow_extra_args": True},  # evaluate says what is wrong
)(evaluate.evaluate)
app.command(name="predict", epilog=predict.EXAMPLES)(predict.predict)
app.command(name="table", epilog=table.EXAMPLES)(table.table)
app.command(name="report", epilog=report.EXAMPLES)(report.report)
app.command(name="bench", epilog=bench.EXAMPLES)(bench.bench)
app.command(name="brec", epilog=brec.EXAMPLES)(brec.brec)
app.command(name="extract", epilog=extract.EXAMPLES)(extract.extract)
app.add_typer(datasets.app, name="datasets")
app.add_typer(wl.app, name="wl")
