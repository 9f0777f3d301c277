"""PNA*: PNA (principal neighbourhood aggregation) with a learned degree embedding."""

import torch
from torch import Tensor, nn

from gnnak.errors import EdgeAttrError
from gnnak.graphs.ragged import counts_of
from gnnak.nn.copies import lookup, segment_reduce
from gnnak.nn.mlp import mlp
from gnnak.typing import check_count


class PNAStarConv(nn.Module):
    r"""PNA with a learned degree embedding in place of the degree scalers.

    $$m_{ij} = \text{MLP}[x_i, x_j, e_{ij}] \qquad
      x_i' = \text{MLP}\big[x_i,\ \text{mean}_j m_{ij},\ \text{min}_j m_{ij},\
        \text{max}_j m_{ij},\ \text{std}_j m_{ij},\ d_{\deg(i)}\big]$$

    Here $m_{ij}$ is the message from node $j$ to node $i$, $e_{ij}$ the state of the
    edge, $d$ the learned embedding of the in-degree, and
    $\text{std} = \sqrt{\text{ReLU}(E[m^2] - E[m]^2) + 10^{-5}}$. For a node without
    incoming edges, mean, minimum and maximum are zero.

    Args:
        channels: Width w of the node states, in and out.
        edge_channels: Width of edge states; 0 if the graphs have no edge states.
        max_degree: Largest in-degree with its own embedding; nodes with a larger
            in-degree use the embedding of `max_degree`.
    """

    def __init__(
        self, channels: int, edge_channels: int = 0, max_degree: int = 199
    ) -> None:
        super().__init__()
        self.in_channels = self.out_channels = check_count("channels", channels, 1)
        self.edge_channels = check_count("edge_channels", edge_channels)
        check_count("max_degree", max_degree)
        width = 2 * channels + edge_channels
        self.message = mlp([width, width, channels], rows="edges")
        self.update = mlp([6 * channels, 6 * channels, channels])
        self.degree = nn.Embedding(max_degree + 1, channels)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Compute new node states, [n, w].

        Args:
            x: Node states, [n, w].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge states, [e, edge_channels]; None if `edge_channels` is 0.
        """
        self._check_edge_attr(edge_attr)
        source, target = edge_index
        ends = [x.index_select(0, target), x.index_select(0, source)]
        if edge_attr is not None:
            ends.append(edge_attr)
        message = self.message(torch.cat(ends, dim=1))
        size = x.size(0)
        mean = segment_reduce(message, target, size, "mean")
        square = segment_reduce(message * message, target, size, "mean")
        std = (torch.relu(square - mean * mean) + 1e-5).sqrt()
        low, high = (_extreme(message, target, size, which) for which in _STARTS)
        degree = counts_of(target, size).clamp_(max=self.degree.num_embeddings - 1)
        of_degree = lookup(self.degree.weight, degree)
        return self.update(torch.cat([x, mean, low, high, std, of_degree], dim=1))

    def _check_edge_attr(self, edge_attr: Tensor | None) -> None:
        if edge_attr is None:
            got = "None"
            fits = self.edge_channels == 0
        else:
            got = f"of shape {list(edge_attr.shape)}"
            fits = edge_attr.dim() == 2 and 0 < self.edge_channels == edge_attr.size(1)
        if not fits:
            wanted = f"[e, {self.edge_channels}]" if self.edge_channels else "None"
            raise EdgeAttrError(
                f"edge_attr is {got}, but this PNAStarConv was built with "
                f"edge_channels={self.edge_channels}; give {wanted}."
            )


_STARTS = {"amin": float("inf"), "amax": float("-inf")}
"""Initial values of a minimum and a maximum; infinite, so that no message equals them.
If they were 0, PyTorch would divide the gradient between them and messages of 0."""


def _extreme(values: Tensor, index: Tensor, size: int, which: str) -> Tensor:
    """Return minima or maxima of rows by group `index`, [size, c]; 0 without rows."""
    rows = index[:, None].expand_as(values)
    out = values.new_full((size, values.size(1)), _STARTS[which])
    found = out.scatter_reduce(0, rows, values, which, include_self=False)
    return found.masked_fill(found == _STARTS[which], 0)
