"""The work of `gnnak wl`: read graphs, run tests, count pairs of BREC."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gnnak.brec.ceiling import BREC_CONTENDERS, COSTLY, BrecCount, run_brec
from gnnak.brec.data import Pair
from gnnak.cli.options import WL_TESTS
from gnnak.errors import FileFormatError, GraphError, OptionError
from gnnak.graphs import read_graph6
from gnnak.graphs.named import Graph
from gnnak.report.pictures import save
from gnnak.training.records.results import (
    Record,
    append_record,
    environment,
    six_digits,
)
from gnnak.wl.compare import partition_with_rounds
from gnnak.wl.explain import Explanation
from gnnak.wl.families import pairs_apart
from gnnak.wl.lab import Contender
from gnnak.wl.options import check_test, known_options, read_options
from gnnak.wl.plotting import plot_explanation


def read_files(files: Sequence[Path]) -> dict[str, Graph]:
    """Read all graphs of some graph6 files."""
    found: dict[str, Graph] = {}
    for file in files:
        store = read_graph6(file)
        if not len(store):
            raise FileFormatError(f"{file} holds no graph; give one graph6 line each.")
        edges = store.edge_index.split(store.num_edges.tolist(), dim=1)
        sizes = store.num_nodes.tolist()
        for line, graph in enumerate(zip(edges, sizes, strict=True)):
            name = str(file) if len(sizes) == 1 else f"{file}:{line}"
            while name in found:
                name += "'"
            found[name] = graph
    return found


def options_by_test(
    tests: Sequence[str], options: dict[str, object]
) -> dict[str, dict[str, object]]:
    """Select, for each Weisfeiler-Leman test, the options that this test supports."""
    for option in options:
        if not any(option in known_options(test) for test in tests):
            raise OptionError(
                f"--{option.replace('_', '-')} means nothing to {', '.join(tests)}; "
                "drop it or name another --test."
            )
    chosen = {}
    for test in tests:
        known = known_options(test)
        chosen[test] = {k: v for k, v in options.items() if k in known}
        read_options(test, **chosen[test])
    return chosen


def compare_graphs(
    test: str, graphs: Sequence[Graph], options: dict[str, object], only_test: bool
) -> dict[str, object]:
    """Run a Weisfeiler-Leman test, and count the pairs of graphs it distinguishes."""
    pairs = len(graphs) * (len(graphs) - 1) // 2
    row: dict[str, object] = {"test": test, "pairs": pairs}
    try:
        classes, rounds = partition_with_rounds(test, graphs, **options)
    except GraphError as error:
        if only_test:
            raise
        return {**row, "apart": None, "rounds": None, "classes": str(error)}
    apart = pairs_apart([list(graphs)], classes)[1]
    return {**row, "apart": apart, "rounds": rounds, "classes": classes}


def save_picture(found: Explanation, picture: Path) -> None:
    """Plot two graphs, coloured by a Weisfeiler-Leman test, and save the picture."""
    try:
        save(plot_explanation(found), picture)
    except OSError as error:
        raise FileFormatError(
            f"{picture} cannot be written ({error.strerror}); name another file."
        ) from None


def explanation_as_dict(found: Explanation) -> dict[str, object]:
    """Convert an explanation to the JSON object of `gnnak wl explain --json`."""
    return {
        "test": found.test,
        "options": asdict(found.options),
        "distinguished": found.distinguished,
        "round": found.round,
        "rounds": found.rounds,
        "colors": [asdict(color) for color in found.colors],
        "node_colors": found.node_colors,
    }


def choose_contenders(
    tests: Sequence[str], options: dict[str, object]
) -> list[Contender]:
    """Return the Weisfeiler-Leman (WL) tests, with options, that the command runs."""
    for test in tests:
        check_test(test)
    tests = tests or [test for test in WL_TESTS if test not in COSTLY]
    if not options:
        return [c for c in BREC_CONTENDERS if c.test in tests]
    by_test = options_by_test(tests, options)
    return [Contender(test, chosen) for test, chosen in by_test.items()]


def count(
    groups: Mapping[str, Sequence[Pair]],
    contenders: Sequence[Contender],
    max_memory: float,
    path: Path | None,
) -> list[Record]:
    """Count the distinguished pairs with a progress bar; return a record per test."""
    columns = (TextColumn("{task.description:44}"), BarColumn(), TimeElapsedColumn())
    total = len(contenders) * sum(len(pairs) for pairs in groups.values())
    records = []
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        for contender in contenders:
            progress.update(task, description=contender.label[:44])
            counts = run_brec(
                groups,
                [contender],
                max_memory,
                lambda pairs: progress.advance(task, pairs),
            )
            records.append(_record(contender, list(counts)))
            if path is not None:
                append_record(path, records[-1])
    return records


def _record(contender: Contender, counts: list[BrecCount]) -> Record:
    """Return the record of one test: a JSON object with its counts in all groups."""
    shown = ("pairs", "apart", "missed", "not_run", "seconds")
    groups = {}
    for each in counts:
        fields = asdict(each) | {"seconds": six_digits(each.seconds)}
        groups[each.group] = {name: fields[name] for name in shown}
    return {
        "kind": "wl-brec",
        "contender": contender.label,
        "test": contender.test,
        "options": dict(contender.options),
        "groups": groups,
        "pairs": sum(each.pairs for each in counts),
        "apart": sum(each.apart for each in counts),
        "not_run": sum(len(each.not_run) for each in counts),
        "seconds": six_digits(sum(each.seconds for each in counts)),
        "note": next((each.note for each in counts if each.note), ""),
    } | environment()


def table(records: Sequence[Record]) -> Table:
    """Return a table with one row per test and one column per group.

    A cell is the number of distinguished pairs. A `+` after the number means that the
    test was not run on all pairs, because some graphs are too large.
    """
    built = Table("test", title="Pairs of BREC that each test distinguishes")
    groups = records[0]["groups"] if records else {}
    for name, found in groups.items():
        built.add_column(f"{name} ({found['pairs']})", justify="right")
    built.add_column("all", justify="right")
    built.add_column("seconds", justify="right")
    for record in records:
        cells = [
            _cell(f["apart"], len(f["not_run"])) for f in record["groups"].values()
        ]
        whole = _cell(record["apart"], record["not_run"])
        built.add_row(record["contender"], *cells, whole, f"{record['seconds']:.1f}")
    return built


def _cell(apart: int, not_run: int) -> str:
    return f"{apart}+" if not_run else str(apart)
