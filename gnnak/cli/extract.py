"""`gnnak extract`: how large rooted subgraphs are, before one trains on them."""

import json
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from gnnak.cli.loading import loading
from gnnak.datasets import Dataset, find_entry
from gnnak.datasets.sizes import CHUNK, SubgraphSizes, subgraph_sizes
from gnnak.errors import GraphError, OptionError
from gnnak.subgraphs import EgoNets, RandomWalks
from gnnak.subgraphs.extractors import Extractor
from gnnak.typing import check_count

EXAMPLES = """
Examples:

    gnnak extract zinc --num-hops 3

    gnnak extract pattern --walks --length 10 --repeats 5 --batch-size 32

    gnnak extract counting --num-hops 2 --sample 500 --channels 64 --json
"""
HOPS, LENGTH, REPEATS = 3, 10, 5

Hops = Annotated[
    int | None, typer.Option(help=f"Radius of the egonets (default {HOPS}).")
]
Walks = Annotated[bool, typer.Option("--walks", help="Walks, not egonets.")]
Length = Annotated[int | None, typer.Option(help=f"Steps of a walk ({LENGTH}).")]
Repeats = Annotated[int | None, typer.Option(help=f"Walks from a root ({REPEATS}).")]
Sample = Annotated[
    int, typer.Option(min=1, help="Take this many graphs at random if it has more.")
]
Batch = Annotated[int, typer.Option(min=1, help="Graphs in a batch.")]
Layers = Annotated[int, typer.Option(min=1, help="Outer layers.")]
Channels = Annotated[int, typer.Option(min=1, help="Width of the states.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes sample and walks.")]
Folder = Annotated[Path | None, typer.Option(help="Folder with data files.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def extract(
    name: Annotated[str, typer.Argument(help="A data set.")],
    num_hops: Hops = None,
    walks: Walks = False,
    length: Length = None,
    repeats: Repeats = None,
    sample: Sample = 1000,
    batch_size: Batch = 128,
    num_layers: Layers = 6,
    channels: Channels = 128,
    seed: Seed = 0,
    data_dir: Folder = None,
    as_json: Json = False,
) -> None:
    """Measure the rooted subgraphs of a data set and the memory to train on them.

    The estimate is 4 bytes x layers x (channels + 16) x (15 x node copies + edge
    copies) of a batch: what a GIN-AK+ keeps for the backward pass, in float32.
    """
    extractor = _extractor(num_hops, walks, length, repeats)
    entry = find_entry(name)
    with loading(1, seed, data_dir) as load:
        dataset = load(entry)
    chosen = _chosen(len(dataset.store), sample, seed)
    sizes = _measure(dataset, extractor, chosen, seed)
    told = {
        "dataset": name,
        "subgraphs": str(extractor),
        "graphs": len(dataset.store),
        **_figures(sizes, batch_size, num_layers, channels),
    }
    if as_json:
        typer.echo(json.dumps(told))
    else:
        _print(told)


def _extractor(
    num_hops: int | None, walks: bool, length: int | None, repeats: int | None
) -> Extractor:
    """Egonets, or walks where they are asked for; options of the other are refused."""
    if walks and num_hops is not None:
        raise OptionError("--num-hops means nothing to --walks; drop one of them.")
    if not walks and (length is not None or repeats is not None):
        raise OptionError("--length and --repeats are for walks; add --walks.")
    if not walks:
        return EgoNets(
            check_count("--num-hops", HOPS if num_hops is None else num_hops)
        )
    return RandomWalks(
        check_count("--length", LENGTH if length is None else length),
        check_count("--repeats", REPEATS if repeats is None else repeats, least=1),
    )


def _chosen(total: int, sample: int, seed: int) -> Tensor:
    """All graphs, or as many as the sample asks for, at random."""
    if total <= sample:
        return torch.arange(total)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(total, generator=generator)[:sample].sort().values


def _measure(
    dataset: Dataset, extractor: Extractor, chosen: Tensor, seed: int
) -> SubgraphSizes:
    if not len(chosen):
        raise GraphError(f"{dataset.info.name} has no graphs; there is nothing to do.")
    generator = torch.Generator().manual_seed(seed)
    store = dataset.store.subset(chosen)
    parts = subgraph_sizes(store, extractor, generator)
    total, console = -(-len(store) // CHUNK), Console(stderr=True)
    bar = track(
        parts,
        "extracting",
        total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    found = list(bar)
    return SubgraphSizes(
        torch.cat([part.nodes for part in found]),
        torch.cat([part.copies for part in found]),
        torch.cat([part.edge_copies for part in found]),
    )


def _figures(
    sizes: SubgraphSizes, batch_size: int, num_layers: int, channels: int
) -> dict[str, object]:
    """What was measured, and what follows for a batch."""
    copies, edges = (
        float(values.double().mean()) for values in (sizes.copies, sizes.edge_copies)
    )
    return {
        "sampled": len(sizes.nodes),
        "nodes": _summary(sizes.nodes),
        "node_copies": _summary(sizes.copies),
        "edge_copies": _summary(sizes.edge_copies),
        "batch_size": batch_size,
        "batch_node_copies": round(batch_size * copies),
        "batch_edge_copies": round(batch_size * edges),
        "num_layers": num_layers,
        "channels": channels,
        "training_bytes": round(sizes.training_bytes(batch_size, num_layers, channels)),
    }


def _summary(values: Tensor) -> dict[str, float]:
    return {
        "mean": round(float(values.double().mean()), 2),
        "median": float(values.double().median()),
        "max": float(values.max()),
    }


def _print(told: dict[str, object]) -> None:
    title = f"{told['dataset']}: {told['subgraphs']}"
    table = Table("of a graph", title=title)
    for column in ("mean", "median", "max"):
        table.add_column(column, justify="right")
    for key in ("nodes", "node_copies", "edge_copies"):
        summary: dict[str, float] = told[key]  # type: ignore[assignment]
        cells = [f"{summary[c]:,.{1 if c == 'mean' else 0}f}" for c in summary]
        table.add_row(key.replace("_", " "), *cells)
    console = Console(highlight=False)
    console.print(table)
    if told["sampled"] != told["graphs"]:
        console.print(
            f"Measured on {told['sampled']:,} of {told['graphs']:,} graphs, at random."
        )
    gib = float(str(told["training_bytes"])) / 2**30
    console.print(
        f"A batch of {told['batch_size']} has about {told['batch_node_copies']:,} node "
        f"copies and {told['batch_edge_copies']:,} edge copies; training GIN-AK+ with "
        f"{told['num_layers']} layers of {told['channels']} channels on it takes about "
        f"{gib:.2f} GiB.",
        soft_wrap=True,
    )
