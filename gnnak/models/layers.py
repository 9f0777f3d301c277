"""One outer layer of the network, plain or uplifted."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from operator import add

from torch import Tensor, nn

from gnnak.errors import OptionError, SubgraphError, WidthError
from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.affine import affine_states
from gnnak.fast.layers.layer import reads_affine
from gnnak.nn.calling import try_out
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.norm import NormReluDropout
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs


class Kernel(nn.Module):
    """A GNN with its own encoder of the raw edge attributes.

    Args:
        gnn: A `GNNAK` layer, run on the rooted subgraphs, or any plain GNN, run on the
            whole graph.
        channels: Width of the node states, in and out.
        edge_encoder: From raw edge attributes to edge states; None for GNNs that read
            none: edge attributes then stay outside, by the choice of who builds it.
    """

    def __init__(
        self, gnn: nn.Module, channels: int, edge_encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.gnn = gnn
        self.edge_encoder = edge_encoder
        if isinstance(gnn, GNNAK):
            self.calling = None
            widths = gnn.in_channels, gnn.out_channels
        else:
            made_of = f"channels of the network, {channels}"
            self.calling = try_out(gnn, channels, made_of)
            widths = channels, self.calling.out_channels
        if widths != (channels, channels):
            raise WidthError(
                f"{type(gnn).__name__} maps width {widths[0]} to {widths[1]} in a "
                f"network of width {channels}; build it with {channels} channels, in "
                "and out."
            )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
    ) -> Tensor:
        """Compute new node states, [n, c].

        Args:
            x: Node states, [n, c].
            edge_index: Directed edges, [2, e].
            edge_attr: Raw edge features; None if there are none.
            batch: The graph each node is in, [n].
            subgraphs: Rooted subgraphs, for a `GNNAK` layer.
        """
        given = edge_attr, edge_index.size(1)
        if self.calling is not None:
            with self._edge_states(*given) as edges:
                return self.calling(self.gnn, x, edge_index, edges, batch)
        if subgraphs is None:
            raise SubgraphError(
                "an uplifted layer got no rooted subgraphs; build the network with an "
                "extractor, or hand subgraphs in."
            )
        line = self._line_states(*given, x)
        if line is not None:
            return self.gnn(x, subgraphs, line)
        with self._edge_states(*given) as edges:
            return self.gnn(x, subgraphs, edges)

    def _line_states(
        self, edge_attr: Tensor | None, num_edges: int, x: Tensor
    ) -> EdgeStates | None:
        """The states of the edges as a line; None if they, or the GNN, want rows."""
        encoder, gnn = self.edge_encoder, self.gnn
        if encoder is None or type(gnn) is not GNNAK or not reads_affine(gnn, x):
            return None
        if gnn._forward_hooks or gnn._forward_pre_hooks:
            return None
        return affine_states(encoder, edge_attr, num_edges)

    def _edge_states(
        self, edge_attr: Tensor | None, num_edges: int
    ) -> AbstractContextManager[Tensor | None]:
        """The states of the edges, [e, c]; None for GNNs that read none."""
        if self.edge_encoder is None:
            return nullcontext()
        if type(self.edge_encoder) is ContinuousEncoder:
            return self.edge_encoder.states(edge_attr, num_edges)
        return nullcontext(self.edge_encoder(edge_attr, num_edges))


class OuterLayer(nn.Module):
    r"""$x \leftarrow x + \text{dropout}(\text{ReLU}(\text{BN}(\sum_i K_i(x))))$.

    Args:
        kernels: The $K_i$ that are summed: as a rule one kernel; an uplifted one and a
            plain one where the experiment adds a plain conv on the whole graph.
        channels: Width of the node states.
        dropout: Share of entries dropped after the ReLU.
    """

    def __init__(
        self, kernels: Sequence[Kernel], channels: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not kernels:
            raise OptionError("an OuterLayer has no kernels; give at least one.")
        self.kernels = nn.ModuleList(kernels)
        self.after = NormReluDropout(channels, dropout)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
    ) -> Tensor:
        """Compute new node states, [n, c]; arguments as of `Kernel`."""
        given = (x, edge_index, edge_attr, batch, subgraphs)
        out = reduce(add, (kernel(*given) for kernel in self.kernels))
        return self.after.added_to(x, out)
