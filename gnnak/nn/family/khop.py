"""k-hop GNN: messages move through an egonet hop by hop, from outside to the root."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gnnak.graphs.ragged import counts_of, pointers
from gnnak.graphs.real import RealCounts
from gnnak.nn.copies import to_nodes
from gnnak.nn.family.gnn import SubgraphGNN, node_readout, node_start
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm, on_graph, on_rows
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count


class Rings(NamedTuple):
    """The rings of all egonets: ring r has a row per node copy at distance r."""

    node: tuple[Tensor, ...]
    """For each ring, the node of each row."""
    edges: dict[tuple[int, int], Tensor]
    """Maps (source ring, target ring) to the edges between the rows of these rings, [2,
    edges]. The target ring is the source ring or the next inner ring. In padded rings,
    every edge copy of the batch has a column. If the edge copy is not between these two
    rings, the column has a padding row of each ring."""
    num_rows: tuple[Tensor | None, ...]
    """For each ring, the number of real rows, a scalar; None if there is no padding."""


def find_rings(subgraphs: RootedSubgraphs, num_hops: int) -> Rings:
    """Divide egonets into rings 0, ..., `num_hops`; the result is cached.

    For padded egonets, this does not synchronise: ring sizes depend on tensor sizes
    only.
    """

    def find() -> Rings:
        if subgraphs.real is None:
            return _exact_rings(subgraphs, num_hops)
        return _padded_rings(subgraphs, subgraphs.real, num_hops)

    return subgraphs.once(Rings, find, num_hops)


def _exact_rings(subgraphs: RootedSubgraphs, num_hops: int) -> Rings:
    nodes: list[Tensor] = []
    rank = torch.empty_like(subgraphs.hop)
    for hop in range(num_hops + 1):
        ring = (subgraphs.hop == hop).nonzero().flatten()
        rank[ring] = torch.arange(ring.numel(), device=rank.device)
        nodes.append(subgraphs.node.index_select(0, ring))
    hops = subgraphs.hop[subgraphs.edge_index]
    edges = {
        (hop, target): rank[subgraphs.edge_index[:, _joins(hops, hop, target)]]
        for hop in range(1, num_hops + 1)
        for target in (hop - 1, hop)
    }
    return Rings(tuple(nodes), edges, (None,) * (num_hops + 1))


def _padded_rings(subgraphs: RootedSubgraphs, real: RealCounts, num_hops: int) -> Rings:
    """Divide padded egonets into padded rings, each with at least one padding row."""
    copies = torch.arange(subgraphs.num_copies, device=subgraphs.device)
    has_ring = (copies < real.copies) & (subgraphs.hop >= 0)
    has_ring &= subgraphs.hop <= num_hops
    hop = torch.where(has_ring, subgraphs.hop, num_hops + 1)
    order = hop.argsort(stable=True)  # ring by ring, then the copies without a ring
    count = counts_of(hop, num_hops + 2)
    first = pointers(count)
    rank = torch.empty_like(order).index_copy(0, order, copies) - first[hop]

    def ring(number: int) -> Tensor:
        row = torch.arange(_most_rows(subgraphs, number) + 1, device=order.device)
        row = (first[number] + row).clamp(max=order.numel() - 1)
        return subgraphs.node.index_select(0, order.index_select(0, row))

    nodes = tuple(ring(number) for number in range(num_hops + 1))
    hops, ranks = hop[subgraphs.edge_index], rank[subgraphs.edge_index]
    column = torch.arange(subgraphs.num_edge_copies, device=order.device)

    def padding(number: int) -> Tensor:
        """Return, for each edge copy, a padding row's index in ring `number`, [f]."""
        return count[number] + column % (nodes[number].numel() - count[number])

    edges = {}
    for number in range(1, num_hops + 1):
        for target in (number - 1, number):
            unused = torch.stack([padding(number), padding(target)])
            joined = _joins(hops, number, target)
            edges[number, target] = torch.where(joined, ranks, unused)
    return Rings(nodes, edges, count[: num_hops + 1].unbind())


def _joins(hops: Tensor, source: int, target: int) -> Tensor:
    return (hops[0] == source) & (hops[1] == target)


def _most_rows(subgraphs: RootedSubgraphs, number: int) -> int:
    """Return an upper bound of the rows of ring `number`, from tensor sizes only."""
    copies, edges = subgraphs.num_copies, subgraphs.num_edges
    if number == 0:
        return subgraphs.num_subgraphs
    return min(copies, edges) if number == 1 and edges is not None else copies


class KHopLayer(nn.Module):
    r"""One layer of the k-hop GNN.

    Ring $r$ of an egonet has the nodes at distance $r$ from its root. A node of ring
    $r$ gets two states, $a_r$ and $b_r$, computed from node states $x$. The layer first
    computes $b_k$ in the outermost ring, then $a_r$ and $b_r$ from $r = k - 1$ to 0:

    $$b_k = f_k(x) + \sum_{\text{same ring}} f'_k(x), \qquad
        a_r = f_r(x) + \sum_{\text{ring } r + 1} g_r(b_{r+1}), \qquad
        b_r = p_r(a_r) + \sum_{\text{same ring}} q_r(a_r)$$

    Sums are over the neighbours of a node in the same ring or in ring $r + 1$. All
    functions are MLPs. The new state of the root is $\text{ReLU}(\text{BN}(a_0))$.

    Edge attributes are not used. Differences from the authors' code: there is a ReLU
    between layers, and no BatchNorm after the sum over the graph.

    Args:
        channels: Width of the states.
        num_hops: Radius $k$ of the egonets.
    """

    def __init__(self, channels: int, num_hops: int) -> None:
        super().__init__()
        self.num_hops = check_count("num_hops", num_hops, least=1)

        def functions(count: int) -> nn.ModuleList:
            widths = [channels, channels, channels]
            return nn.ModuleList(mlp(widths) for _ in range(count))

        self.from_nodes = functions(num_hops + 1)  # f_0, ..., f_k
        self.outermost = functions(1)[0]  # f'_k
        self.inwards = functions(num_hops)  # g_0, ..., g_(k-1)
        self.keep = functions(num_hops - 1)  # p_1, ..., p_(k-1)
        self.within_hop = functions(num_hops - 1)  # q_1, ..., q_(k-1)
        self.norm = BatchNorm(channels)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, c]; `edge_index` and `edge_attr` are unused."""
        rings = find_rings(subgraphs, self.num_hops)

        def run(function: nn.Module, values: Tensor, hop: int) -> Tensor:
            with on_rows(rings.num_rows[hop]):
                return function(values)

        def states(hop: int) -> Tensor:
            return x.index_select(0, rings.node[hop])

        def summed(values: Tensor, source: int, target: int) -> Tensor:
            """For each row of ring `target`, sum its neighbours in ring `source`."""
            ends = rings.edges[source, target]
            total = values.new_zeros(rings.node[target].numel(), values.size(1))
            return total.index_add(0, ends[1], values.index_select(0, ends[0]))

        last = self.num_hops
        b = run(self.from_nodes[last], states(last), last)
        b = b + summed(run(self.outermost, states(last), last), last, last)
        for hop in range(last - 1, 0, -1):
            a = run(self.from_nodes[hop], states(hop), hop)
            a = a + summed(run(self.inwards[hop], b, hop + 1), hop + 1, hop)
            b = run(self.keep[hop - 1], a, hop)
            b = b + summed(run(self.within_hop[hop - 1], a, hop), hop, hop)
        a = run(self.from_nodes[0], states(0), 0)
        a = a + summed(run(self.inwards[0], b, 1), 1, 0)
        a = a[: subgraphs.num_subgraphs]  # padded rings have one more row
        a = to_nodes(a, subgraphs, subgraphs.known_num_nodes)
        with on_graph(subgraphs.real):
            return self.norm(a).relu()


def khop_gnn(layers: Sequence[KHopLayer], channels: int) -> SubgraphGNN:
    """Build the k-hop GNN (Nikolentzos et al., 2020).

    Call the network with the k-hop egonets of a batch (`EgoNets`). In a graph task,
    node states are summed over the graph. The k-hop GNN is at most as powerful as
    PSWL(VS), and with one layer as SWL(VS). These are subgraph Weisfeiler-Leman tests
    of Zhang et al. (2023).

    Args:
        layers: The layers.
        channels: Width of the states.
    """
    return SubgraphGNN(node_start, layers, node_readout, channels)
