"""`GCN`: PyG's `GCNConv`, with self loops that are added without synchronising."""

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm


class GCN(GCNConv):
    """PyG's `GCNConv`, in a form that can be captured as a CUDA graph.

    As in `GCNConv`, every node has exactly one self loop. `GCNConv` removes the self
    loops of the graph and then adds its own, so the host waits for the number of edges
    that remain. Here, self loops of the graph stay, with weight zero.

    Args:
        channels: Width of the node states, in and out.

    >>> GCN(8)(torch.rand(2, 8), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 8])
    """

    synchronises = False

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute new node states, [n, channels].

        Args:
            x: Node states, [n, channels].
            edge_index: Directed edges, [2, e].
        """
        size = x.size(0)
        source, target = edge_index
        loops = torch.arange(size, device=x.device).expand(2, -1)
        edges = torch.cat([edge_index, loops], dim=1)
        weights = torch.cat([(source != target).to(x.dtype), x.new_ones(size)])
        edges, weights = gcn_norm(edges, weights, size, add_self_loops=False)
        out = self.propagate(edges, x=self.lin(x), edge_weight=weights)
        return out + self.bias
