"""The work of `gnnak datasets` and `gnnak extract`: load and measure data sets."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import typer
from rich.table import Table
from torch import Tensor

from gnnak.cli.options import progress_bar
from gnnak.datasets import (
    DATASETS,
    Dataset,
    Description,
    Entry,
    Request,
    cache_dir,
    describe_dataset,
    find_entry,
    load_entry,
)
from gnnak.datasets.describe import (
    CHUNK,
    SubgraphSizes,
    agrees,
    subgraph_sizes,
    whereabouts,
)
from gnnak.datasets.own import Reading, as_rows
from gnnak.datasets.own.load import data_name
from gnnak.errors import GraphError, counted
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.rows import GraphRows, check_any
from gnnak.subgraphs.advice import can_choose_roots, estimated_sizes
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.extractors import Extractor
from gnnak.training.config.experiment import is_own


@contextmanager
def loading(
    total: int, seed: int, data_dir: Path | None
) -> Iterator[Callable[[Entry], Dataset]]:
    """Context manager: show progress; yield a function that loads a data set."""
    folder = None if data_dir is None else str(data_dir)
    with progress_bar() as progress:
        overall = progress.add_task("data sets", total=total)

        def load(entry: Entry) -> Dataset:
            task = progress.add_task(entry.name, total=None)

            def advance(done: int, whole: int) -> None:
                progress.update(task, completed=done, total=whole)

            request = Request(None, seed, folder, advance)
            dataset = load_entry(entry, request)
            progress.remove_task(task)
            progress.advance(overall)
            return dataset

        yield load


def describe_all(
    names: Sequence[str], seed: int, data_dir: Path | None
) -> list[Description]:
    """Compute statistics of data sets; by default, of all that need no download."""
    entries = [find_entry(name) for name in names]
    if not names:
        absent = ("download", "package", "file only")
        every = DATASETS.values()
        entries = [e for e in every if whereabouts(e, data_dir) not in absent]
    with loading(len(entries), seed, data_dir) as load:
        return [describe_dataset(entry, load(entry)) for entry in entries]


def prepare_all(
    names: Sequence[str], seed: int, data_dir: Path | None
) -> list[dict[str, Any]]:
    """Load data sets, which caches them on disk; return a summary of each data set."""
    entries = [find_entry(name) for name in names]
    prepared = []
    with loading(len(entries), seed, data_dir) as load:
        for entry in entries:
            before = set(cache_dir().glob("*.npz"))
            dataset = load(entry)
            new = sorted(set(cache_dir().glob("*.npz")) - before)
            row = {"name": entry.name, "graphs": len(dataset.store)}
            row |= {"source": dataset.info.source, "written": [*map(str, new)]}
            prepared.append(row)
    return prepared


def description_table(found: Sequence[Description]) -> Table:
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
    if paper is None:
        return f"{measured:.2f}"
    digits = len(paper.partition(".")[2]) + 1
    mark = "" if agrees(measured, paper) else " *"
    return f"{measured:.{digits}f} ({paper}){mark}{' t' if over_training else ''}"


def find_graphs(
    name: str, smiles: str | None, seed: int, data_dir: Path | None
) -> tuple[str, GraphStore]:
    if is_own(name):
        return data_name(name), own_graphs(Path(name), smiles).store
    entry = find_entry(name)
    with loading(1, seed, data_dir) as load:
        return entry.name, load(entry).store


def own_graphs(path: Path, smiles: str | None) -> GraphRows:
    """Read a file or folder of graphs; print how many rows were left out, if any."""
    rows = as_rows(path, Reading(smiles=smiles))
    check_any(rows)
    if rows.bad:
        count = counted(rows.num_rows, "row")
        typer.echo(f"left out {len(rows.bad)} of {count}, {rows.bad[0]}", err=True)
    return rows


def measure(
    store: GraphStore, extractor: Extractor, sample: int, seed: int
) -> SubgraphSizes:
    """Measure subgraphs of `sample` random graphs or, in one graph, of random roots."""
    if len(store) == 1 and can_choose_roots(extractor):
        found = estimated_sizes(
            extractor, store.edge_index, int(store.num_nodes), sample, seconds=10
        )
        if (limit := getattr(extractor, "copy_limit", None)) is not None:
            CopyLimit(limit, store.edge_index.device).check(found.total, "about")
        counts = [torch.tensor([round(each)]) for each in found[:2]]
        return SubgraphSizes(store.num_nodes, *counts)
    if not len(store):
        raise GraphError("there are no graphs, so there is nothing to do; give some.")
    shuffle, generator = (torch.Generator().manual_seed(seed) for _ in range(2))
    order = torch.randperm(len(store), generator=shuffle)
    store = store.subset(order[:sample].sort().values)
    chunks = subgraph_sizes(store, extractor, generator)
    total = -(-len(store) // CHUNK)
    with progress_bar() as bar:
        return SubgraphSizes.join([*bar.track(chunks, total, description="extracting")])


def summary(
    sizes: SubgraphSizes, batch_size: int, num_layers: int, channels: int
) -> dict[str, object]:
    copies = float(sizes.copies.double().mean())
    edges = float(sizes.edge_copies.double().mean())
    return {
        "sampled": len(sizes.nodes),
        "nodes": _statistics(sizes.nodes),
        "node_copies": _statistics(sizes.copies),
        "edge_copies": _statistics(sizes.edge_copies),
        "batch_size": batch_size,
        "batch_node_copies": round(batch_size * copies),
        "batch_edge_copies": round(batch_size * edges),
        "num_layers": num_layers,
        "channels": channels,
        "training_bytes": round(sizes.training_bytes(batch_size, num_layers, channels)),
    }


def _statistics(values: Tensor) -> dict[str, float]:
    return {
        "mean": round(float(values.double().mean()), 2),
        "median": float(values.double().median()),
        "max": float(values.max()),
    }
