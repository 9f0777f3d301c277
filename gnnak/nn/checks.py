"""Check the arguments of `GNNAK.forward`."""

import torch
from torch import Tensor

from gnnak.errors import SubgraphError, WidthError
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs


def check_states(x: Tensor, channels: int) -> None:
    """Raise `WidthError` unless `x` is a floating-point tensor [n, channels]."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise WidthError(f"x is {kind}; give a tensor of real numbers [n, {channels}].")
    if x.dim() != 2 or x.size(1) != channels:
        raise WidthError(f"x has shape {list(x.shape)}; give [n, {channels}].")


def check_subgraphs(
    subgraphs: RootedSubgraphs, num_nodes: int, edge_attr: Tensor | None
) -> None:
    """Raise an error unless the subgraphs fit the nodes and the edge attributes.

    Args:
        subgraphs: One rooted subgraph per node, or the sample of these subgraphs that
            `SubgraphDrop` returns.
        num_nodes: Number of nodes, n.
        edge_attr: Edge states, [e, c], or weights, [e]; None if there are none.

    Raises:
        SubgraphError: If `subgraphs` is not a `RootedSubgraphs` object, or belongs to a
            graph with another number of nodes.
        EdgeAttrError: If `edge_attr` does not have one row per edge.
    """
    if not isinstance(subgraphs, RootedSubgraphs):
        raise SubgraphError(
            f"subgraphs is a {type(subgraphs).__name__}; give the result of "
            "gnnak.EgoNets(num_hops)(edge_index, num_nodes)."
        )
    sampled = isinstance(subgraphs, SampledSubgraphs)
    if (subgraphs.num_nodes if sampled else subgraphs.num_subgraphs) != num_nodes:
        raise SubgraphError(
            f"there are {subgraphs.num_subgraphs} rooted subgraphs for {num_nodes} "
            "nodes; extract one for every node of this batch."
        )
    if edge_attr is not None:
        subgraphs.check_edge_attr(edge_attr)


def check_hops(subgraphs: RootedSubgraphs, max_hops: int) -> None:
    """Raise `SubgraphError` if a node is farther than `max_hops` from its root.

    The distance is the number of edges of a shortest path within the rooted subgraph.
    Code compiled by `torch.compile` uses an assertion on the device instead.
    """
    if torch.compiler.is_compiling():
        within = (subgraphs.hop <= max_hops).all()
        torch._assert_async(within, f"a hop is beyond max_hops={max_hops}")
    elif subgraphs.max_hop > max_hops:
        raise SubgraphError(
            f"a copy is {subgraphs.max_hop} hops from its root, but this layer has "
            f"max_hops={max_hops}; build it with max_hops={subgraphs.max_hop}."
        )
