"""`gnnak wl`: show which graphs Weisfeiler-Leman tests and networks can distinguish."""

import typer

from gnnak.cli.wl import brec, compare, explain, lab

app = typer.Typer(
    help="Weisfeiler-Leman tests on hard families of graphs and on your own graphs.",
    epilog=lab.EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command(name="lab", epilog=lab.EXAMPLES)(lab.lab)
app.command(name="brec", epilog=brec.EXAMPLES)(brec.brec)
app.command(name="compare", epilog=compare.EXAMPLES)(compare.compare)
app.command(name="explain", epilog=explain.EXAMPLES)(explain.explain)
