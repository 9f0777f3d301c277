"""The work of `gnnak extract`: extract rooted subgraphs and summarise their sizes.

A node copy is a node as seen in one rooted subgraph; an edge copy is an edge as seen in
one rooted subgraph.
"""

from pathlib import Path

import torch
import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor

from gnnak.cli.loading import loading
from gnnak.cli.train_run import is_own
from gnnak.datasets import find_entry
from gnnak.datasets.describe import CHUNK, SubgraphSizes, subgraph_sizes
from gnnak.datasets.own import Reading, as_rows
from gnnak.datasets.own.load import data_name
from gnnak.errors import GraphError, counted
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.rows import check_any
from gnnak.subgraphs.extractors import Extractor


def find_graphs(
    name: str, smiles: str | None, seed: int, data_dir: Path | None
) -> tuple[str, GraphStore]:
    """Return the name and the graphs of a data set, or of the user's own data.

    Rows of own data that are not graphs are left out, with a line that says so.

    Args:
        name: Name of a data set, or path of own data.
        smiles: Column with SMILES strings of own data; None = the column `smiles`.
        seed: Seed of generated data sets.
        data_dir: Folder with data files; None = the default folders.
    """
    if is_own(name):
        rows = as_rows(Path(name), Reading(smiles=smiles))
        check_any(rows)
        if rows.bad:
            count = counted(rows.num_rows, "row")
            typer.echo(f"left out {len(rows.bad)} of {count}, {rows.bad[0]}", err=True)
        return data_name(name), rows.store
    entry = find_entry(name)
    with loading(1, seed, data_dir) as load:
        return entry.name, load(entry).store


def measure(
    store: GraphStore, extractor: Extractor, sample: int, seed: int
) -> SubgraphSizes:
    """Extract the rooted subgraphs of graphs and measure their sizes.

    The graphs are processed in chunks, which limits the memory.

    Args:
        store: The graphs.
        extractor: Extracts egonets or random walks.
        sample: Maximal number of graphs to measure; more graphs are sampled at random.
        seed: Seed of the sampled graphs and of random walks.

    Returns:
        For each graph its number of nodes, and the total numbers of nodes and edges of
        its rooted subgraphs.
    """
    graphs = _sampled(len(store), sample, seed)
    if not len(graphs):
        raise GraphError("there are no graphs, so there is nothing to do; give some.")
    generator = torch.Generator().manual_seed(seed)
    store = store.subset(graphs)
    chunks = subgraph_sizes(store, extractor, generator)
    total, console = -(-len(store) // CHUNK), Console(stderr=True)
    bar = track(
        chunks,
        "extracting",
        total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    return SubgraphSizes.join(list(bar))


def summary(
    sizes: SubgraphSizes, batch_size: int, num_layers: int, channels: int
) -> dict[str, object]:
    """Summarise the sizes of rooted subgraphs, and estimate the memory of a batch.

    Args:
        sizes: For each graph its number of nodes, and the total numbers of nodes and
            edges of its rooted subgraphs.
        batch_size: Number of graphs in a batch.
        num_layers: Number of GNN-AK layers of the model.
        channels: Number of hidden channels of the model.

    Returns:
        The JSON object that `gnnak extract --json` prints, except for the entries that
        name the data set and the kind of subgraphs.
    """
    copies, edges = (
        float(values.double().mean()) for values in (sizes.copies, sizes.edge_copies)
    )
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


def _sampled(total: int, sample: int, seed: int) -> Tensor:
    """Return the sorted indices of `sample` random graphs out of `total`.

    If `total` is at most `sample`, the indices of all graphs are returned.
    """
    if total <= sample:
        return torch.arange(total)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(total, generator=generator)[:sample].sort().values


def _statistics(values: Tensor) -> dict[str, float]:
    return {
        "mean": round(float(values.double().mean()), 2),
        "median": float(values.double().median()),
        "max": float(values.max()),
    }
