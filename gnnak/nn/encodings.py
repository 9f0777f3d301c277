r"""The three encodings of the paper, one equation each.

`z` [m, c] holds the base GNN's state of every copy, $\text{Emb}(i \mid \text{Sub}[j])$;
each function returns one row per rooted subgraph or per node. Gates multiply `z`
before it comes here.
"""

import torch
from torch import Tensor

from gnnak.fast.kernels import has_fast_kernels
from gnnak.fast.layers.fill import fused_fill
from gnnak.nn.segment import gather, segment_reduce
from gnnak.sampling.estimate import SampledSubgraphs, fill
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


def centroid_encoding(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""$h_v^{\text{Centroid}} = \text{Emb}(v \mid \text{Sub}[v])$, as [s, c]."""
    return gather(z, subgraphs.centroid)


def subgraph_encoding(z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce) -> Tensor:
    r"""$h_v^{\text{Subgraph}} = \text{POOL}_i \, \text{Emb}(i \mid \text{Sub}[v])$.

    Pools over the copies of one subgraph, as [s, c].
    """
    return segment_reduce(z, subgraphs.subgraph, subgraphs.num_subgraphs, reduce)


def context_encoding(
    z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""$h_v^{\text{Context}} = \text{POOL}_j \, \text{Emb}(v \mid \text{Sub}[j])$.

    Pools over the copies of one node, in whatever subgraph they are, as [n, c]. With
    SubgraphDrop a sum over the kept subgraphs $\mathcal{S}$ is scaled up to one over
    all, $|\{j : v \in \text{Sub}[j]\}| \,/\, |\{j \in \mathcal{S} : v \in
    \text{Sub}[j]\}|$ times; a mean is not changed.
    """
    pooled = segment_reduce(z, subgraphs.node, num_nodes, reduce)
    return scaled_up(pooled, subgraphs) if reduce == "sum" else pooled


def scaled_up(context: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Sums over the kept subgraphs, [n, c], as estimates of sums over all."""
    if not isinstance(subgraphs, SampledSubgraphs):
        return context
    return context * subgraphs.scale(context.dtype)[:, None]


def at_nodes(
    encodings: dict[Encoding, Tensor],
    subgraphs: RootedSubgraphs,
    num_nodes: int,
    fused: bool = True,
) -> dict[Encoding, Tensor]:
    """Put encodings of rooted subgraphs, each [s, c], at their roots, each [n, c].

    With SubgraphDrop, nodes whose subgraphs were dropped take theirs from neighbours
    nearer to the kept roots; see `plan_filling`.

    Args:
        encodings: The encodings.
        subgraphs: The subgraphs.
        num_nodes: Number of nodes, n.
        fused: Whether to use fused kernels, where there are some.
    """
    if not encodings or (
        subgraphs.num_subgraphs == num_nodes
        and not torch.compiler.is_compiling()
        and subgraphs.in_order
    ):
        return encodings
    fast = fused and all(map(has_fast_kernels, encodings.values()))
    if fast and isinstance(subgraphs, SampledSubgraphs):
        return {name: fused_fill(h, subgraphs) for name, h in encodings.items()}
    values = torch.cat(list(encodings.values()), dim=1)
    if isinstance(subgraphs, SampledSubgraphs):
        placed = fill(values, subgraphs.filling, num_nodes)
    else:
        placed = values.new_zeros(num_nodes, values.size(1))
        placed = placed.index_copy(0, subgraphs.root, values)
    return dict(zip(encodings, placed.chunk(len(encodings), dim=1), strict=True))
