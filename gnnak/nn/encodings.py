"""The centroid, subgraph and context encodings of the paper, one function each.

The symbols in the equations are those of `GNNAK`.
"""

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.nn.copies import at_centroid, pool_context, pool_subgraph, to_nodes
from gnnak.sampling.estimate import SampledSubgraphs, fill
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


def centroid_encoding(gated: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""Return the centroid encoding: the state of each root in its own subgraph.

    $$h_v^{\text{Centroid}} = \text{Emb}(v \mid \text{Sub}[v])$$

    Args:
        gated: One row for each pair of a subgraph and a node in it, [m, c]: the node's
            state in that subgraph, multiplied by the gate if there is one.
        subgraphs: The rooted subgraphs.

    Returns:
        One row for each of the s subgraphs, [s, c].
    """
    return at_centroid(gated, subgraphs)


def subgraph_encoding(
    gated: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce
) -> Tensor:
    r"""Return the subgraph encoding: the node states of each subgraph, pooled.

    $$h_v^{\text{Subgraph}} = \text{POOL}_{i \in \text{Sub}[v]}\,
        \text{Sigmoid}(\mathbf{d}_{i|v}) \odot \text{Emb}(i \mid \text{Sub}[v])$$

    Here $\text{Emb}(i \mid \text{Sub}[v])$ is the state that the base GNN computes for
    node $i$ in the subgraph rooted at $v$, and $\text{Sigmoid}(\mathbf{d}_{i|v})$ is a
    learned gate (factors in 0..1) that depends on the distance from $i$ to $v$.

    Args:
        gated: One row for each pair of a subgraph and a node in it, [m, c]: the node's
            state in that subgraph, multiplied by the gate if there is one.
        subgraphs: The rooted subgraphs.
        reduce: What POOL is, "sum" or "mean".

    Returns:
        One row for each of the s subgraphs, [s, c].
    """
    return pool_subgraph(gated, subgraphs, reduce)


def context_encoding(
    gated: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Return the context encoding: the states of each node in all subgraphs, pooled.

    $$h_v^{\text{Context}} = \text{POOL}_{j:\, v \in \text{Sub}[j]}\,
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    Here $\text{Emb}(v \mid \text{Sub}[j])$ is the state that the base GNN computes for
    node $v$ in the subgraph rooted at $j$, and $\text{Sigmoid}(\mathbf{d}_{v|j})$ is a
    learned gate (factors in 0..1) that depends on the distance from $v$ to $j$.

    With SubgraphDrop, only the subgraphs of a sampled set $\mathcal{S}$ of roots are
    encoded. A mean is then taken over these subgraphs. A sum over these subgraphs is
    scaled, to estimate the sum over all subgraphs that contain $v$:

    $$h_v^{\text{Context}} = \frac{|\{j : v \in \text{Sub}[j]\}|}
        {|\{j \in \mathcal{S} : v \in \text{Sub}[j]\}|}
        \sum_{j \in \mathcal{S}:\, v \in \text{Sub}[j]}
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    Args:
        gated: One row for each pair of a subgraph and a node in it, [m, c]: the node's
            state in that subgraph, multiplied by the gate if there is one.
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.
        reduce: What POOL is, "sum" or "mean".

    Returns:
        One row per node, [n, c].
    """
    pooled = pool_context(gated, subgraphs, num_nodes, reduce)
    return scaled_to_all(pooled, subgraphs) if reduce == "sum" else pooled


def scaled_to_all(context: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Scale context encodings that were summed over a sample of the subgraphs.

    The result estimates the sum over all subgraphs that contain a node.

    Args:
        context: For each node, the sum over the sampled subgraphs that contain the
            node, [n, c].
        subgraphs: The subgraphs, sampled by SubgraphDrop or not.

    Returns:
        The scaled sums, [n, c]; `context` itself if the subgraphs are not a sample.
    """
    if not isinstance(subgraphs, SampledSubgraphs):
        return context
    return context * subgraphs.scale(context.dtype)[:, None]


def at_nodes(
    encodings: dict[Encoding, Tensor], subgraphs: RootedSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Turn encodings of rooted subgraphs, [s, c], into encodings of nodes, [n, c].

    The encoding of a subgraph becomes the encoding of its root. If SubgraphDrop has
    dropped the subgraph of a node, the node gets the mean encoding of those neighbours
    that are nearer to a sampled root; see `plan_filling`.

    Args:
        encodings: Encodings of the subgraphs, [s, c], by name.
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.

    Returns:
        Encodings of the nodes, [n, c], by name.
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
    return _split(to_nodes(values, subgraphs, num_nodes), encodings)


@operation
def fill_dropped(
    encodings: dict[Encoding, Tensor], subgraphs: SampledSubgraphs, num_nodes: int
) -> dict[Encoding, Tensor]:
    """Estimate the encodings of all nodes from those of the sampled roots.

    Args:
        encodings: Encodings of the subgraphs that SubgraphDrop has sampled, [s, c], by
            name.
        subgraphs: The sampled subgraphs. The field `filling` says how to average the
            encodings of sampled roots to estimate those of dropped roots.
        num_nodes: Number of nodes, n.

    Returns:
        Encodings of the nodes, [n, c], by name.
    """
    values = torch.cat(list(encodings.values()), dim=1)
    return _split(fill(values, subgraphs.filling, num_nodes), encodings)


def _split(values: Tensor, encodings: dict[Encoding, Tensor]) -> dict[Encoding, Tensor]:
    """Split concatenated encodings into a dict with the keys of `encodings`."""
    return dict(zip(encodings, values.chunk(len(encodings), dim=1), strict=True))
