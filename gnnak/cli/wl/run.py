"""The work of `gnnak wl`: read graphs, run Weisfeiler-Leman tests, save pictures."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gnnak.errors import FileFormatError, GraphError, OptionError
from gnnak.graphs.named import Graph
from gnnak.graphs.readers import read_graph6
from gnnak.report.pictures import save
from gnnak.wl.compare import partition_with_rounds
from gnnak.wl.explain import Explanation
from gnnak.wl.families import pairs_apart
from gnnak.wl.options import known_options, read_options
from gnnak.wl.plotting import plot_explanation


def read_files(files: Sequence[Path]) -> dict[str, Graph]:
    """Read all graphs of some graph6 files.

    Returns:
        The graphs by name. The name of a graph is the path of its file, followed by
        `:` and the line number if the file has several graphs. If a file is given
        twice, the second name ends with an apostrophe.
    """
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
    """Select, for each Weisfeiler-Leman test, the options that this test supports.

    Args:
        tests: Names of the tests.
        options: Options that were set on the command line.

    Returns:
        Maps each test to the options that this test supports.

    Raises:
        OptionError: If a value is out of range, or if there is an option that none of
            the tests supports.
    """
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
    """Run a Weisfeiler-Leman test and count the pairs of graphs that it distinguishes.

    Args:
        test: Name of the test.
        graphs: The graphs.
        options: Options of the test.
        only_test: Whether the command runs no other test. If the graphs are too large
            for the test, an error is raised if this is True; otherwise the returned row
            contains the error message.

    Returns:
        A row of the table of `gnnak wl compare`: the test, the number of pairs, the
        number of pairs that the test distinguishes, the number of rounds, and the class
        of each graph. Graphs that the test does not distinguish are in the same class.
    """
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
    """Plot two graphs, coloured by a Weisfeiler-Leman test, and save the picture.

    Args:
        found: The result of `wl.explain` for two graphs.
        picture: Image file to write.

    Raises:
        FileFormatError: If the file cannot be written.
    """
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
