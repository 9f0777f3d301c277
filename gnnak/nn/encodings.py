r"""The centroid, subgraph and context encodings of the paper, one equation each.

The argument `gated` [m, c] is
$\text{Sigmoid}(\mathbf{d}_{i|j}) \odot \text{Emb}(i \mid \text{Sub}[j])$ for every node
$i$ in every rooted subgraph $j$; an encoding without a gate gets
$\text{Emb}(i \mid \text{Sub}[j])$.
"""

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.nn.copies import at_centroid, pool_context, pool_subgraph
from gnnak.sampling.estimate import SampledSubgraphs, fill
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


def centroid_encoding(gated: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""Compute $h_v^{\text{Centroid}} = \text{Emb}(v \mid \text{Sub}[v])$, [s, c].

    One row per subgraph: the state of its root.
    """
    return at_centroid(gated, subgraphs)


def subgraph_encoding(
    gated: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce
) -> Tensor:
    r"""Compute the subgraph encoding of every rooted subgraph, [s, c].

    $$h_v^{\text{Subgraph}} = \text{POOL}_{i \in \text{Sub}[v]}\,
        \text{Sigmoid}(\mathbf{d}_{i|v}) \odot \text{Emb}(i \mid \text{Sub}[v])$$

    pools over all nodes of one subgraph.
    """
    return pool_subgraph(gated, subgraphs, reduce)


def context_encoding(
    gated: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Compute the context encoding of every node, [n, c].

    $$h_v^{\text{Context}} = \text{POOL}_{j:\, v \in \text{Sub}[j]}\,
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    pools over all subgraphs that contain one node. SubgraphDrop leaves only the
    subgraphs of the sampled roots $\mathcal{S}$; a sum over these is scaled up to
    estimate the sum over all:

    $$h_v^{\text{Context}} = \frac{|\{j : v \in \text{Sub}[j]\}|}
        {|\{j \in \mathcal{S} : v \in \text{Sub}[j]\}|}
        \sum_{j \in \mathcal{S}:\, v \in \text{Sub}[j]}
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    A mean is not scaled.
    """
    pooled = pool_context(gated, subgraphs, num_nodes, reduce)
    return scaled_to_all(pooled, subgraphs) if reduce == "sum" else pooled


def scaled_to_all(context: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Scale context sums over sampled subgraphs, [n, c], to sums over all subgraphs.

    Without SubgraphDrop, return `context` unchanged.
    """
    if not isinstance(subgraphs, SampledSubgraphs):
        return context
    return context * subgraphs.scale(context.dtype)[:, None]


def at_nodes(
    encodings: dict[Encoding, Tensor], subgraphs: RootedSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Turn encodings of rooted subgraphs, [s, c], into encodings of nodes, [n, c].

    The encoding of a subgraph becomes that of its root. With SubgraphDrop, a node whose
    subgraph was dropped gets the mean over its neighbours that are nearer to a sampled
    root; see `plan_filling`.

    Args:
        encodings: The encodings [s, c], by name.
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.

    Returns:
        The encodings [n, c], by name.
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
    """Estimate encodings of all nodes, [n, c], from those of sampled roots, [s, c]."""
    values = torch.cat(list(encodings.values()), dim=1)
    return _split(fill(values, subgraphs.filling, num_nodes), encodings)


def _split(values: Tensor, encodings: dict[Encoding, Tensor]) -> dict[Encoding, Tensor]:
    """Split concatenated encodings again, by the names and order of `encodings`."""
    return dict(zip(encodings, values.chunk(len(encodings), dim=1), strict=True))
