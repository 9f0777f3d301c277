"""PPGN (provably powerful graph network): a GNN on the dense matrix of node pairs."""

import torch
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.errors import EdgeAttrError
from gnnak.nn.base.node_pairs import NodePairs, find_pairs, multiply_pairs, pair_states
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm
from gnnak.typing import check_count

MAX_XAVIER_BLOCKS = 4
"""Largest number of blocks that are initialised by Xavier's rule. The product of a
block is quadratic in its states, so the states of deeper networks would overflow: after
six blocks, on graphs of 15 nodes."""


class PPGN(nn.Module):
    r"""Provably powerful graph network (PPGN), a GNN of matrix products.

    PPGN is as expressive as the 3-dimensional Weisfeiler-Leman test (3-WL). A graph or
    rooted subgraph with n nodes is a tensor $X$ [w, n, n] with the node states on the
    diagonal and the edge states off the diagonal. A block computes

    $$X' = W\,[X,\ \text{MLP}_1(X) \cdot \text{MLP}_2(X)]$$

    with one matrix product per channel. The new state of node $i$ is
    $\text{MLP}(\text{BN}[X_{ii},\ \sum_{j \ne i} X_{ij}])$, where the MLP is a Linear
    $2w \to 2w$, BatchNorm, ReLU and a Linear to the output width.

    The entries of all graphs are the rows of one matrix without padding; see
    `NodePairs`.

    Args:
        channels: Width of node and edge states, w.
        num_layers: Number of blocks.
        out_channels: Width of the new node states; None = w.
    """

    synchronises = True
    """The host waits for the number of nodes of each graph."""

    def __init__(
        self, channels: int, num_layers: int = 2, out_channels: int | None = None
    ) -> None:
        super().__init__()
        self.in_channels = check_count("channels", channels, 1)
        if out_channels is None:
            out_channels = channels
        self.out_channels = check_count("out_channels", out_channels, 1)
        check_count("num_layers", num_layers, least=1)
        xavier = num_layers <= MAX_XAVIER_BLOCKS
        self.blocks = nn.ModuleList(
            PPGNBlock(channels, xavier) for _ in range(num_layers)
        )
        self.norm = BatchNorm(2 * channels)
        self.readout = mlp([2 * channels, 2 * channels, out_channels])

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, out_channels].

        Args:
            x: Node states, [n, w].
            edge_index: Directed edges, [2, e]. The states of duplicate edges are
                summed; the state of a self loop is added to the state of its node.
            edge_attr: Edge states, [e, w]; None = all ones.
            batch: Index of the graph that each node is in, [n]; None = all nodes are in
                one graph.
        """
        if batch is None:
            batch = x.new_zeros(x.size(0), dtype=torch.long)
        return self.on_pairs(x, edge_index, edge_attr, find_pairs(batch))

    def on_pairs(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        pairs: NodePairs,
    ) -> Tensor:
        """Compute the result of `forward`, given the pairs of nodes of all graphs.

        Args:
            x: Node states, [n, w].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge states, [e, w]; None = all ones.
            pairs: The result of `find_pairs` for the batch.
        """
        if edge_attr is None:
            edge_attr = x.new_ones(edge_index.size(1), x.size(1))
        elif edge_attr.shape != (edge_index.size(1), x.size(1)):
            raise EdgeAttrError(
                f"edge_attr has shape {list(edge_attr.shape)}; give a PPGN edge states "
                f"as wide as node states, [{edge_index.size(1)}, {x.size(1)}]."
            )
        states = pair_states(x, edge_index, edge_attr, pairs)
        *blocks, last = self.blocks
        for block in blocks:
            states = block(states, pairs)
        assert isinstance(last, PPGNBlock)
        return self.readout(self.norm(last.pool_block(states, pairs).to(x.dtype)))


class PPGNBlock(nn.Module):
    """One block of `PPGN`: a matrix product per channel of the states of node pairs.

    With PyTorch's default initialisation, which has smaller weights than Xavier's rule
    and random biases, the products hardly change the states. In float32, differences
    between graphs that only show after several blocks are then smaller than rounding
    errors, and cannot be learned.

    Args:
        channels: Width of the states of node pairs, w.
        xavier: Whether weights are initialised by `torch.nn.init.xavier_uniform_`, and
            biases with zero; otherwise by PyTorch's defaults.
    """

    def __init__(self, channels: int, xavier: bool = True) -> None:
        super().__init__()
        self.left, self.right = (
            nn.Sequential(
                nn.Linear(channels, channels),
                nn.ReLU(),
                nn.Linear(channels, channels),
                nn.ReLU(),
            )
            for _ in range(2)
        )
        self.mix = nn.Linear(2 * channels, channels)
        for layer in self.modules():
            if xavier and isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, pairs: NodePairs) -> Tensor:
        """Compute new states of node pairs, [p, w].

        Args:
            x: States of node pairs, [p, w].
            pairs: The pair of nodes that each row stands for.
        """
        return self.update_pairs(x, pairs)

    @operation
    def update_pairs(self, x: Tensor, pairs: NodePairs) -> Tensor:
        """Compute the result of `forward`; a backend can replace this method."""
        product = multiply_pairs(self.left(x), self.right(x), pairs)
        return self.mix(torch.cat([x, product.to(x.dtype)], dim=1))

    @operation
    def pool_block(self, x: Tensor, pairs: NodePairs) -> Tensor:
        """Compute `pool_pairs` of the new states of node pairs, [n, 2w].

        Args:
            x: States of node pairs, [p, w].
            pairs: The pair of nodes that each row stands for.
        """
        return pool_pairs(self(x, pairs), pairs)


@operation
def pool_pairs(x: Tensor, pairs: NodePairs) -> Tensor:
    r"""Compute $[X_{ii},\ \sum_{j \ne i} X_{ij}]$ for each node $i$, [n, 2w].

    Args:
        x: States $X_{ij}$ of node pairs, [p, w].
        pairs: The pair of nodes that each row stands for.
    """
    diagonal = x.index_select(0, pairs.diagonal)
    sums = [part.sum(dim=2).flatten(0, 1) for part in pairs.split(x)]
    others = torch.cat([x[:0], *sums]).index_select(0, pairs.rank) - diagonal
    return torch.cat([diagonal, others], dim=1)
