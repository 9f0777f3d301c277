r"""The three encodings of the paper, one equation each.

`z` [m, c] holds the base GNN's state of every copy, $\text{Emb}(i \mid \text{Sub}[j])$,
already multiplied by its gate. Each function returns one row per rooted subgraph or per
node.
"""

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.nn.copies import at_centroid, pool_context, pool_subgraph
from gnnak.sampling.estimate import SampledSubgraphs, fill
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


def centroid_encoding(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""$h_v^{\text{Centroid}} = \text{Emb}(v \mid \text{Sub}[v])$, as [s, c]."""
    return at_centroid(z, subgraphs)


def subgraph_encoding(z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce) -> Tensor:
    r"""$h_v^{\text{Subgraph}} = \text{POOL}_i \, \text{Emb}(i \mid \text{Sub}[v])$.

    Pools over the copies of one subgraph, as [s, c].
    """
    return pool_subgraph(z, subgraphs, reduce)


def context_encoding(
    z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""$h_v^{\text{Context}} = \text{POOL}_j \, \text{Emb}(v \mid \text{Sub}[j])$.

    Pools over the copies of one node in all subgraphs, as [n, c]. With SubgraphDrop a
    sum over the sampled subgraphs $\mathcal{S}$ is scaled to estimate the sum over all:
    $|\{j : v \in \text{Sub}[j]\}| \,/\, |\{j \in \mathcal{S} : v \in
    \text{Sub}[j]\}|$ times; a mean is not scaled.
    """
    pooled = pool_context(z, subgraphs, num_nodes, reduce)
    return scaled_to_all(pooled, subgraphs) if reduce == "sum" else pooled


def scaled_to_all(context: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Scale sums over sampled subgraphs, [n, c], to estimate sums over all."""
    if not isinstance(subgraphs, SampledSubgraphs):
        return context
    return context * subgraphs.scale(context.dtype)[:, None]


def at_nodes(
    encodings: dict[Encoding, Tensor], subgraphs: RootedSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Put encodings of rooted subgraphs, each [s, c], at their roots, each [n, c].

    With SubgraphDrop, nodes whose subgraphs were dropped get an estimate from
    neighbours nearer to the sampled roots; see `plan_filling`.

    Args:
        encodings: The encodings, by name.
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.
    """
    if not encodings or (
        subgraphs.num_subgraphs == num_nodes
        and not torch.compiler.is_compiling()
        and subgraphs.in_order
    ):
        return encodings
    if isinstance(subgraphs, SampledSubgraphs):
        return fill_dropped(encodings, subgraphs, num_nodes)
    values = torch.cat(list(encodings.values()), dim=1)
    placed = values.new_zeros(num_nodes, values.size(1))
    placed = placed.index_copy(0, subgraphs.root, values)
    return _split(placed, encodings)


@operation
def fill_dropped(
    encodings: dict[Encoding, Tensor], subgraphs: SampledSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Estimate the encodings of all nodes, [n, c], from those of sampled roots."""
    values = torch.cat(list(encodings.values()), dim=1)
    return _split(fill(values, subgraphs.filling, num_nodes), encodings)


def _split(values: Tensor, encodings: dict[Encoding, Tensor]) -> dict[Encoding, Tensor]:
    """Undo the concatenation of several encodings."""
    return dict(zip(encodings, values.chunk(len(encodings), dim=1), strict=True))
