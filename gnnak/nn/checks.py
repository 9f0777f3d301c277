"""Check the arguments of `GNNAK.forward`."""

import torch
from torch import Tensor

from gnnak.errors import EdgeAttrError, SubgraphError, WidthError
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.wording import kind_of


def check_states(x: Tensor, channels: int) -> None:
    """Raise `WidthError` unless `x` is a floating-point tensor [n, channels]."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise WidthError(f"x is {kind}; give a tensor of real numbers [n, {channels}].")
    if x.dim() != 2 or x.size(1) != channels:
        raise WidthError(f"x has shape {list(x.shape)}; give [n, {channels}].")


def check_subgraphs(
    subgraphs: RootedSubgraphs, x: Tensor, edge_attr: Tensor | None
) -> None:
    """Raise an error unless the subgraphs fit the node states and edge attributes.

    Args:
        subgraphs: One rooted subgraph per node, or the sample of these subgraphs that
            `SubgraphDrop` returns.
        x: Node states, [n, c].
        edge_attr: Edge states, [e, c], or weights, [e]; None if there are none.

    Raises:
        SubgraphError: If `subgraphs` is not a `RootedSubgraphs` object, belongs to a
            graph with another number of nodes, or is on another device than `x`.
        EdgeAttrError: If `edge_attr` does not have one row per edge, is a sparse
            tensor, or is on another device than `x`.
    """
    num_nodes = x.size(0)
    if not isinstance(subgraphs, RootedSubgraphs):
        raise SubgraphError(
            f"subgraphs is {kind_of(subgraphs)}; give the result of "
            "gnnak.EgoNets(num_hops)(edge_index, num_nodes)."
        )
    sampled = isinstance(subgraphs, SampledSubgraphs)
    if (subgraphs.num_nodes if sampled else subgraphs.num_subgraphs) != num_nodes:
        raise SubgraphError(
            f"there are {subgraphs.num_subgraphs} rooted subgraphs for {num_nodes} "
            "nodes; extract one for every node of this batch."
        )
    if subgraphs.device != x.device:
        raise SubgraphError(
            f"the subgraphs are on {subgraphs.device}, but x is on {x.device}; move "
            f"them with subgraphs.to('{x.device}')."
        )
    if edge_attr is not None:
        subgraphs.check_edge_attr(edge_attr)
        _check_edge_device(edge_attr, x.device)


def _check_edge_device(edge_attr: Tensor, device: torch.device) -> None:
    """Raise `EdgeAttrError` unless `edge_attr` is a dense tensor on `device`."""
    if edge_attr.layout != torch.strided:
        raise EdgeAttrError(
            f"edge_attr has the layout {edge_attr.layout}; convert it with .to_dense()."
        )
    if edge_attr.device != device:
        raise EdgeAttrError(
            f"edge_attr is on {edge_attr.device}, but x is on {device}; move it with "
            f"edge_attr.to('{device}')."
        )


def check_hops(subgraphs: RootedSubgraphs, max_hops: int) -> None:
    """Raise `SubgraphError` if a node is farther than `max_hops` from its root.

    The distance is the number of edges of a shortest path within the rooted subgraph.
    In code that `torch.compile` compiles, an assertion on the device replaces the
    error.
    """
    if torch.compiler.is_compiling():
        within = (subgraphs.hop <= max_hops).all()
        torch._assert_async(within, f"a hop is beyond max_hops={max_hops}")
        return
    known = subgraphs.hop_range
    if (known is None or known[1] > max_hops) and subgraphs.max_hop > max_hops:
        raise SubgraphError(
            f"a node is {subgraphs.max_hop} hops from its root, but this layer has "
            f"max_hops={max_hops}; build it with max_hops={subgraphs.max_hop}."
        )
