"""The work of `gnnak datasets`: find, load and measure data sets; build tables."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from gnnak.cli.loading import loading
from gnnak.datasets import (
    DATASETS,
    Description,
    cache_dir,
    describe_dataset,
    find_entry,
)
from gnnak.datasets.describe import agrees, whereabouts

NOT_LOCAL = ("download", "file only")
"""Values that `whereabouts` returns for data sets that are not on disk and that gnnak
cannot generate. `gnnak datasets describe` without names skips such data sets."""


def rows(data_dir: Path | None) -> list[dict[str, Any]]:
    """Return the rows of `gnnak datasets list`: one JSON object per data set.

    Args:
        data_dir: Folder with data files; None = the default folders.
    """
    return [
        {
            "name": entry.name,
            "title": entry.info.title,
            "description": entry.description,
            "task": entry.info.task,
            "metric": entry.info.metric,
            "targets": entry.targets,
            "protocols": entry.info.protocols,
            "from": whereabouts(entry, data_dir),
        }
        for entry in DATASETS.values()
    ]


def list_table(found: Sequence[dict[str, Any]]) -> Table:
    """Return the table of `gnnak datasets list`, from the rows that `rows` returns."""
    columns = ("name", "title", "task", "metric", "from")
    table = Table(*columns)
    for row in found:
        table.add_row(*(str(row[column]) for column in columns))
    return table


def list_targets() -> Iterator[str]:
    """For each data set with several targets, yield a line that lists the targets."""
    for entry in DATASETS.values():
        if entry.targets:
            yield f"targets of {entry.name}: {', '.join(entry.targets)}"


def describe_all(
    names: Sequence[str], seed: int, data_dir: Path | None
) -> list[Description]:
    """Load data sets and compute their statistics.

    Args:
        names: Names of the data sets; if empty, all that are on disk or that gnnak can
            build or generate.
        seed: Seed of generated data sets.
        data_dir: Folder with data files; None = the default folders.
    """
    entries = [find_entry(name) for name in names]
    if not names:
        sources = {e.name: whereabouts(e, data_dir) for e in DATASETS.values()}
        entries = [e for e in DATASETS.values() if sources[e.name] not in NOT_LOCAL]
    with loading(len(entries), seed, data_dir) as load:
        return [describe_dataset(entry, load(entry)) for entry in entries]


def prepare_all(
    names: Sequence[str], seed: int, data_dir: Path | None
) -> list[dict[str, Any]]:
    """Load data sets, so that generated and downloaded ones are cached on disk.

    Args:
        names: Names of the data sets.
        seed: Seed of generated data sets.
        data_dir: Folder with data files; None = the default folders.

    Returns:
        For each data set its name, its number of graphs, its source, and the cache
        files that were written.
    """
    entries = [find_entry(name) for name in names]
    prepared = []
    with loading(len(entries), seed, data_dir) as load:
        for entry in entries:
            before = set(cache_dir().glob("*.npz"))
            dataset = load(entry)
            new = sorted(set(cache_dir().glob("*.npz")) - before)
            prepared.append(
                {
                    "name": entry.name,
                    "graphs": len(dataset.store),
                    "source": dataset.info.source,
                    "written": [str(path) for path in new],
                }
            )
    return prepared


def description_table(found: Sequence[Description]) -> Table:
    """Return the table of `gnnak datasets describe`, with one row per data set."""
    table = Table("data set", "graphs", title="Data sets (paper's figures in brackets)")
    for name in ("mean nodes", "mean edges"):
        table.add_column(name, justify="right")
    for name in ("features of nodes; edges", "outputs", "source"):
        table.add_column(name, overflow="fold")
    for row in found:
        table.add_row(
            row.name,
            row.graphs,
            _with_paper(row.nodes, row.paper_nodes, "nodes" in row.over_training),
            _with_paper(row.edges, row.paper_edges, "edges" in row.over_training),
            f"{row.node_features}; {row.edge_features or 'none'}",
            str(row.outputs),
            row.source,
        )
    return table


def _with_paper(measured: float, paper: str | None, over_training: bool) -> str:
    """Format a measured mean, followed by the paper's number in brackets, if any.

    An asterisk means that the two numbers differ. A `t` means that both are means over
    the training graphs only.
    """
    if paper is None:
        return f"{measured:.2f}"
    digits = len(paper.partition(".")[2]) + 1
    mark = "" if agrees(measured, paper) else " *"
    return f"{measured:.{digits}f} ({paper}){mark}{' t' if over_training else ''}"
