"""Estimate the memory of a training step on a pair of BREC."""

import torch

from gnnak.graphs.families import Graph
from gnnak.graphs.ragged import counts_of
from gnnak.models.factory import parse_name
from gnnak.subgraphs import RootedSubgraphs
from gnnak.subgraphs.extractors import extract
from gnnak.training.brec.options import TrialOptions

PER_NODE_COPY, PER_EDGE_COPY, PER_NODE_PAIR = 30, 8, 14
"""Numbers of states that a layer saves for the backward pass: per node copy and per
edge copy (a node or an edge as it occurs in one rooted subgraph), and in a PPGN also
per pair of nodes of a subgraph. These are rough numbers for the most costly models."""
LARGE_BYTES = 4 << 30
"""From this estimated number of bytes on, activations are recomputed in the backward
pass instead of saved; see `large_bytes`."""
GPU_SHARE = 1 / 6
"""On a GPU, activations are saved up to this fraction of its memory: steps that save
their activations can be captured as CUDA graphs."""


def layer_bytes(subgraphs: RootedSubgraphs | None, options: TrialOptions) -> int:
    """Estimate how many bytes one layer stores for its backward pass.

    Args:
        subgraphs: The rooted subgraphs of a batch; None = the network has none, and
            needs little memory.
        options: The options of the network.
    """
    if subgraphs is None:
        return 0
    copies = PER_NODE_COPY * subgraphs.num_copies
    edges = PER_EDGE_COPY * subgraphs.num_edge_copies
    pairs = 0
    if parse_name(options.model).has_node_pairs:
        sizes = counts_of(subgraphs.subgraph, subgraphs.num_subgraphs)
        pairs = PER_NODE_PAIR * int(sizes.square().sum())
    return 4 * options.channels * options.base_layers * (copies + edges + pairs)


def large_bytes(device: torch.device) -> int:
    """Return from which estimated number of bytes on activations are recomputed."""
    if device.type != "cuda":
        return LARGE_BYTES
    total = torch.cuda.get_device_properties(device).total_memory
    return max(LARGE_BYTES, int(GPU_SHARE * total))


def is_large(
    subgraphs: RootedSubgraphs | None, options: TrialOptions, device: torch.device
) -> bool:
    """Return whether a step should recompute activations instead of saving them.

    That is so if the layers would save `large_bytes` or more.

    Args:
        subgraphs: The rooted subgraphs of a batch; None = the network has none.
        options: The options of the network.
        device: Where to train.
    """
    total = options.num_layers * layer_bytes(subgraphs, options)
    return total >= large_bytes(device)


def step_bytes(
    graph: Graph, options: TrialOptions, batch_size: int, device: torch.device
) -> int:
    """Estimate the peak memory in bytes of a training step.

    Args:
        graph: One graph of the pair, as (edge_index, num_nodes); the other one has
            about the same size.
        options: The options of the network.
        batch_size: Number of graphs in a batch.
        device: Where to train.
    """
    subgraphs = None
    if parse_name(options.model).uplifted:
        subgraphs = extract(options.model_options().extractor, *graph)
    layer = batch_size * layer_bytes(subgraphs, options)
    total = options.num_layers * layer
    # The states between layers are a small part of what a layer saves.
    return total if total < large_bytes(device) else layer + total // PER_NODE_COPY
