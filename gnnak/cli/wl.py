"""`gnnak wl`: show which graphs Weisfeiler-Leman tests and networks can distinguish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli import brec
from gnnak.cli.names import (
    WL_FAMILIES,
    WL_NETWORKS,
    WL_TESTS,
    check_each,
    check_file,
    check_model,
    check_test,
    examples,
    flag,
    option,
    typer_app,
)
from gnnak.cli.options import (
    GRAPH_FILES,
    JSON,
    MEMORY,
    SMILES,
    TESTS,
    WLGraphOptions,
    expanded,
    find_contenders,
    given,
    progress_bar,
    show,
)
from gnnak.errors import GraphError, OptionError, counted
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gnnak.wl.bounds import Contender
    from gnnak.wl.lab import LabResult

LAB_EXAMPLES = examples(
    "gnnak wl lab",
    "gnnak wl lab --family csl --family srg25 --no-networks",
    "gnnak wl lab --family cfi-petersen --test 2-fwl --json",
    "gnnak wl lab --family cycles --test 1-wl --network sswl+-gin --network gin-ak+",
)
COMPARE_EXAMPLES = examples(
    "gnnak wl compare A.g6 B.g6",
    'gnnak wl compare A.g6 B.g6 --test "subgraph-1-wl*" --num-hops 2 --d2c',
    "gnnak wl compare A.edges B.edges --test gin-ak+ --test sswl+-gin",
    "gnnak wl compare molecules.csv --test 1-wl --test 3-wl --json",
)
EXPLAIN_EXAMPLES = examples(
    "gnnak wl explain A.g6 B.g6",
    'gnnak wl explain A.g6 B.g6 --test "subgraph-1-wl*" --picture colours.png',
    "gnnak wl explain A.g6 B.g6 --test 3-wl --json",
)
FAMILY_NAMES, NETWORK_NAMES = ", ".join(WL_FAMILIES), ", ".join(WL_NETWORKS)

app = typer_app(
    "Weisfeiler-Leman tests on hard families of graphs and on your own graphs.",
    LAB_EXAMPLES,
)


@app.command(epilog=LAB_EXAMPLES)
def lab(
    family: list[str] | None = option(help=f"May be repeated. One of: {FAMILY_NAMES}."),
    test: list[str] | None = TESTS,
    networks: bool = typer.Option(True, help="Run networks as well."),
    network: list[str] | None = option(
        callback=check_each(check_model),
        help="Network to run, such as gin-ak+ or sswl+-gin; may be repeated.",
        show_default=NETWORK_NAMES,
    ),
    num_hops: int | None = option(
        min=0,
        help="Radius of the egonets, for networks.",
        show_default="3; whole graphs for sswl, sswl+ and l2fgnn",
    ),
    max_memory: float = MEMORY,
    as_json: bool = JSON,
) -> None:
    """Run Weisfeiler-Leman (WL) tests and networks on hard families of graphs.

    The table shows, for each family and each test or network, the number of
    non-isomorphic pairs, how many of these pairs are distinguished, the rounds until
    the colouring was stable, and the time. Each network has three rows: the WL test
    that bounds the network (no network distinguishes more pairs than its bound), the
    network with random weights, and the network after a few training steps.
    """
    for name in family or ():
        check_choice("--family", name, WL_FAMILIES)
    if network and not networks:
        raise OptionError("--network and --no-networks exclude each other; drop one.")
    with stoppable_at_once():
        from gnnak.models.factory import normal_name
        from gnnak.wl.bounds import find_test, options_of
        from gnnak.wl.lab import LAB_CONTENDERS, LAB_FAMILIES, run_lab, run_networks

    families = tuple(family or LAB_FAMILIES)
    contenders = [c for c in LAB_CONTENDERS if not test or c.test in test]
    for name in (name for name in test or () if name not in WL_TESTS):
        radius = {"num_hops": num_hops} if "num_hops" in options_of(name) else {}
        contenders.append(find_test(name, given(**radius)))
    results = run_lab(families, contenders, max_memory)
    of_tests = total = len(families) * len(contenders)
    if networks:
        names = [normal_name(name) for name in network or WL_NETWORKS]
        ran = run_networks(families, names, num_hops, max_memory=max_memory)
        results = chain(results, ran)
        total += len(families) * len(names) * 3
    found = []
    with progress_bar() as progress:
        task = progress.add_task("building", total=total)
        for result in results:
            found.append(result)
            title = f"{result.family}: {result.contender}"
            progress.update(task, advance=1, description=title[:44])
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in found]))
        return
    tables = [_table("Tests", "test", found[:of_tests])]
    if networks:
        tables.append(_table("Networks", "network", found[of_tests:]))
    notes = [f"{r.family}, {r.contender}: {r.note}" for r in found if r.note]
    show(*tables, *notes)


def _table(title: str, kind: str, rows: list[LabResult]) -> Table:
    table = Table("family", kind, title=title)
    for name in ("pairs", "told apart", "rounds", "seconds"):
        table.add_column(name, justify="right")
    shown = ""
    for row in rows:
        if shown and shown != row.family:
            table.add_section()
        first = row.family if shown != row.family else ""
        shown = row.family
        apart = "not run" if row.apart is None else f"{row.apart:,}"
        rounds = "" if row.rounds is None else str(row.rounds)
        cells = (f"{row.pairs:,}", apart, rounds, f"{row.seconds:.2f}")
        shown_name = f"{row.contender}: {row.test}" if row.test else row.contender
        table.add_row(first, shown_name, *cells)
    return table


app.command(name="brec", epilog=brec.WL_EXAMPLES)(brec.wl_brec)


@app.command(epilog=COMPARE_EXAMPLES)
@expanded
def compare(
    chosen: WLGraphOptions,
    files: list[Path] = typer.Argument(
        callback=check_each(check_file),
        help=f"Two graphs or more; each is a {GRAPH_FILES}.",
    ),
    test: list[str] | None = TESTS,
    smiles: str | None = SMILES,
    as_json: bool = JSON,
) -> None:
    """Show which Weisfeiler-Leman tests distinguish the given graphs.

    For each test, graphs that it does not distinguish are listed as one class. Without
    --test, all tests are run. A test ignores the options that it does not support.
    """
    options = given(**vars(chosen))
    tests = test or list(WL_TESTS)
    with stoppable_at_once():
        import gnnak.wl  # noqa: F401, PyTorch and other large packages

    contenders = find_contenders(tests, options)
    named, counts = _read_files(files, smiles)
    if len(named) < 2:
        raise GraphError(f"{files[0]} holds one graph; give two graphs to compare.")
    graphs, only_test = list(named.values()), len(tests) == 1
    with progress_bar() as bar:
        rows = [
            _compare(each, graphs, only_test)
            for each in bar.track(contenders, description="comparing")
        ]
    if as_json:
        typer.echo(json.dumps({"graphs": list(named), "tests": rows}))
        return
    table = Table("test", "pairs", "told apart", "rounds", "classes")
    for row in rows:
        _, *cells = ("" if cell is None else str(cell) for cell in row.values())
        table.add_row(*cells)
    show(*counts, table)


@app.command(epilog=EXPLAIN_EXAMPLES)
@expanded
def explain(
    chosen: WLGraphOptions,
    first: Path = typer.Argument(
        callback=check_file, help=f"One graph: a {GRAPH_FILES}."
    ),
    second: Path = typer.Argument(
        callback=check_file, help="One graph, in any of these formats."
    ),
    test: str = typer.Option(
        "subgraph-1-wl*",
        callback=check_test,
        help=f"One of: {', '.join(WL_TESTS)}; or a network, such as gin-ak+, for the "
        "test that bounds it.",
    ),
    smiles: str | None = SMILES,
    picture: Path | None = option(help="Plot both graphs, coloured, into this file."),
    as_json: bool = flag("--json", help="Print one JSON object instead of text."),
) -> None:
    """Show in which round, and by which colours, a WL test distinguishes two graphs."""
    if picture is not None and picture.suffix not in (".png", ".pdf", ".svg"):
        raise OptionError(f"--picture is {picture}; end it in .png, .pdf or .svg.")
    with stoppable_at_once():
        from gnnak import wl
        from gnnak.report.pictures import save
        from gnnak.wl.plotting import plot_explanation

    named, _ = _read_files([first, second], smiles)
    if len(named) != 2:
        raise GraphError(
            f"the files hold {len(named)} graphs; give two files of one graph each."
        )
    with Console(stderr=True).status(f"running {test}"):
        found = wl.explain(test, *named.values(), **given(**vars(chosen)))
    if picture is not None:
        save(plot_explanation(found), picture)
    if as_json:
        told = asdict(found) | {"distinguished": found.distinguished}
        del told["graphs"]
        typer.echo(json.dumps(told))
        return
    show(str(found))
    if picture is not None:
        typer.echo(f"Picture: {picture}")


def _read_files(
    files: Sequence[Path], smiles: str | None
) -> tuple[dict[str, Data], list[str]]:
    """Return graphs by name (`file`, `file:row`), and texts like "file: 2 graphs"."""
    from gnnak.cli.data_run import own_graphs
    from gnnak.wl.inputs import graphs_of

    found: dict[str, Data] = {}
    counts = []
    for file in files:
        rows = own_graphs(file, smiles)
        counts.append(f"{file}: {counted(len(rows.store), 'graph')}")
        for row, graph in zip(rows.position.tolist(), graphs_of(rows), strict=True):
            name = str(file) if rows.num_rows == 1 else f"{file}:{row}"
            while name in found:
                name += "'"
            found[name] = graph
    return found, counts


def _compare(
    contender: Contender, graphs: Sequence[Data], only_test: bool
) -> dict[str, object]:
    """Return a test's row of the table; raise errors if `only_test`, else show them."""
    from gnnak.wl.compare import partition_with_rounds
    from gnnak.wl.families import pairs_apart

    pairs = len(graphs) * (len(graphs) - 1) // 2
    test, options, label = contender.test, contender.options, contender.label
    name = contender.network or test
    row: dict[str, object] = {"test": name, "label": label, "pairs": pairs}
    try:
        classes, rounds = partition_with_rounds(test, graphs, **options)
    except GraphError as error:
        if only_test:
            raise
        return {**row, "apart": None, "rounds": None, "classes": str(error)}
    apart = pairs_apart([list(graphs)], classes)[1]
    return {**row, "apart": apart, "rounds": rounds, "classes": classes}
