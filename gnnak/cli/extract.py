"""`gnnak extract`: measure the sizes of rooted subgraphs before training on them."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from gnnak.cli.names import check_data, examples, flag, option
from gnnak.cli.options import DATA_DIR, GRAPH_FILES, JSON, given, own_values, show
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.graphs import GraphStore
    from gnnak.models.options import SubgraphKind
    from gnnak.subgraphs.extractors import Extractor

EXAMPLES = examples(
    "gnnak extract zinc --num-hops 3",
    "gnnak extract pattern --walks --length 10 --repeats 5 --batch-size 32",
    "gnnak extract counting --num-hops 2 --max-neighbors 5 --sample 500 --json",
    "gnnak extract counting --pagerank --size 16 --channels 64",
    "gnnak extract molecules.csv --smiles smiles --num-hops 3",
)
KINDS = {
    "egonets": ("num_hops", "max_neighbors"),
    "walks": ("length", "repeats"),
    "pagerank": ("size", "alpha"),
}
"""Maps each kind of subgraphs to its options."""
usual_option = partial(option, show_default="as in gnnak train")


def extract(
    name: str = typer.Argument(
        callback=check_data("your own data"),
        help=f"A data set (`gnnak datasets list`), or your own data: a {GRAPH_FILES}.",
    ),
    num_hops: int | None = usual_option(min=0, help="Radius of the egonets."),
    max_neighbors: int | None = usual_option(
        min=1, help="Nodes that are sampled at each hop of an egonet."
    ),
    walks: bool = flag("--walks", help="Random walks instead of egonets."),
    length: int | None = usual_option(min=0, help="Steps of a walk."),
    repeats: int | None = usual_option(min=1, help="Walks from each root."),
    pagerank: bool = flag(
        "--pagerank", help="Nodes of the largest personalised PageRank."
    ),
    size: int | None = usual_option(min=1, help="Nodes of a PageRank subgraph."),
    alpha: float | None = usual_option(help="Probability that a walk ends."),
    sample: int = typer.Option(
        1000,
        min=1,
        help="Measure at most this many graphs, at random; of one graph, nodes.",
    ),
    batch_size: int | None = usual_option(min=1, help="Graphs in a batch."),
    layers: int | None = usual_option(
        "--layers", "--num-layers", min=1, help="GNN-AK layers of the model."
    ),
    channels: int | None = usual_option(min=1, help="Hidden channels of the model."),
    copy_limit: int | None = option(
        min=1,
        help="Refuse a graph whose subgraphs have more nodes and edges in total.",
        show_default="as many as fit into memory",
    ),
    seed: int = typer.Option(
        0, min=0, help="Seed of samples: graphs, walks, neighbours."
    ),
    smiles: str | None = option(
        help="Column with SMILES strings of your own data.", show_default="smiles"
    ),
    data_dir: Path | None = DATA_DIR,
    as_json: bool = JSON,
) -> None:
    """Measure the sizes of rooted subgraphs; estimate the memory to train on them.

    The subgraphs, batches and layers are those of `gnnak train` with the same data,
    unless options change them.

    A node copy (edge copy) is a node (edge) as it occurs in one rooted subgraph. The
    memory is 4 bytes x layers x (channels + 16) x (15 x node copies + edge copies) of
    a batch: the float32 tensors that GIN-AK+ saves for the backward pass.
    """
    if walks and pagerank:
        raise OptionError(
            "--walks and --pagerank exclude each other; drop one of them."
        )
    with stoppable_at_once():
        from gnnak.cli.data_run import find_graphs, measure, summary
        from gnnak.models.options import SubgraphOptions
        from gnnak.training.config.experiment import find_config

    shape = given(
        num_hops=num_hops,
        max_neighbors=max_neighbors,
        length=length,
        repeats=repeats,
        size=size,
        alpha=alpha,
    )
    widths = given(batch_size=batch_size, num_layers=layers, channels=channels)
    _, config = find_config(name, widths, own_values(smiles=smiles))
    usual = config.model.subgraphs
    assert isinstance(usual, SubgraphOptions)
    kind: SubgraphKind = usual.kind or "egonets"
    if walks or pagerank:
        kind = "walks" if walks else "pagerank"
    elif not shape.keys().isdisjoint(KINDS["egonets"]):
        kind = "egonets"
    _check_shape(kind, shape)
    options = replace(usual, kind=kind, copy_limit=copy_limit, seed=seed, **shape)
    extractor = options.build()
    title, store = find_graphs(name, smiles, seed, data_dir)
    if batch_size is not None and len(store) == 1:
        raise OptionError(
            f"--batch-size is for many graphs, but {title} is one graph, all nodes of "
            "which are counted; leave it out."
        )
    sizes = measure(store, extractor, sample, seed)
    graphs = 1 if len(store) == 1 else config.train.batch_size or len(store)
    shown = {
        "dataset": title,
        "subgraphs": str(extractor),
        "graphs": len(store),
        "sample": sample,
        **summary(sizes, graphs, config.model.num_layers, config.model.channels),
    }
    if as_json:
        typer.echo(json.dumps(shown))
    else:
        _print(shown)
    _warn(shown, store, extractor)


def _check_shape(kind: "SubgraphKind", shape: dict[str, Any]) -> None:
    for name in shape:
        if name not in KINDS[kind]:
            shown = f"--{name.replace('_', '-')}"
            of = next(of for of, names in KINDS.items() if name in names)
            raise OptionError(f"{shown} is for {of}, not for {kind}; leave it out.")


def _print(shown: dict[str, Any]) -> None:
    title = f"{shown['dataset']}: {shown['subgraphs']}"
    table = Table("of a graph", title=title)
    for column in ("mean", "median", "max"):
        table.add_column(column, justify="right")
    for key in ("nodes", "node_copies", "edge_copies"):
        cells = [f"{v:,.{1 if c == 'mean' else 0}f}" for c, v in shown[key].items()]
        table.add_row(key.replace("_", " "), *cells)
    measured, total = shown["sampled"], shown["graphs"]
    lines, batch = [], f"A batch of {shown['batch_size']}"
    if measured != total:
        lines.append(f"Measured on {measured:,} of {total:,} graphs, at random.")
    if total == 1:
        batch, nodes = "The graph", shown["nodes"]["max"]
        if nodes > shown["sample"]:
            lines.append(f"Estimated from {shown['sample']} of {nodes:,.0f} nodes.")
    gib = shown["training_bytes"] / 2**30
    lines.append(
        f"{batch} has about {shown['batch_node_copies']:,} "
        f"node copies and {shown['batch_edge_copies']:,} edge copies; training GIN-AK+ "
        f"with {shown['num_layers']} layers of {shown['channels']} channels on it "
        f"takes about {gib:.2f} GiB."
    )
    show(table, *lines)


def _warn(shown: dict[str, Any], store: "GraphStore", extractor: "Extractor") -> None:
    import torch

    from gnnak.datasets.describe import memory_advice, one_graph_advice

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if len(store) == 1:
        widths = shown["num_layers"], shown["channels"]
        advice = one_graph_advice(store, extractor, device, *widths)
    else:
        needed, batch_size = shown["training_bytes"], shown["batch_size"]
        advice = memory_advice(needed, batch_size, device)
    if advice is not None:
        typer.echo(f"warning: {advice}", err=True)
