"""The layers of the paper's network (`OuterLayer`), and the GNNs inside (`Kernel`).

An outer layer is one GNN-AK layer, or one GNN on the whole graph, with BatchNorm, ReLU,
dropout and a residual sum. "Outer" sets it apart from the layers of the base GNN inside
a GNN-AK layer.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.errors import OptionError, SubgraphError, WidthError
from gnnak.nn.calling import try_out
from gnnak.nn.norm import NormReluDropout
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs


@operation
def run_with_edges(
    encoder: nn.Module,
    values: Tensor | None,
    num_edges: int,
    run: Callable[[Tensor], Tensor],
) -> Tensor:
    """Encode raw edge features as edge states, and run a GNN with these.

    A backend may replace both steps by one faster implementation.

    Args:
        encoder: Maps raw edge features to edge states, [e, c].
        values: Raw edge features, [e, c] or [e]; None if there are none.
        num_edges: Number of edges, e.
        run: Runs the GNN; takes the edge states, returns node states.

    Returns:
        The result of `run`.
    """
    return run(encoder(values, num_edges))


@operation
def run_uplifted(
    layer: GNNAK,
    encoder: nn.Module,
    values: Tensor | None,
    num_edges: int,
    x: Tensor,
    subgraphs: RootedSubgraphs,
) -> Tensor:
    """Encode raw edge features as edge states, and run a GNN-AK layer with these.

    A backend may replace both steps by one faster implementation.

    Args:
        layer: The GNN-AK layer.
        encoder: Maps raw edge features to edge states, [e, c].
        values: Raw edge features, [e, c] or [e]; None if there are none.
        num_edges: Number of edges, e.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.

    Returns:
        New node states, [n, c].
    """
    return run_with_edges(
        encoder, values, num_edges, lambda states: layer(x, subgraphs, states)
    )


class Kernel(nn.Module):
    """One GNN inside an `OuterLayer`, with its own encoder of the raw edge features.

    Args:
        gnn: A `GNNAK` layer, which runs on the rooted subgraphs, or any other GNN,
            which runs on the whole graph.
        channels: Width of the node states, in and out.
        edge_encoder: Maps raw edge features to edge states; None for GNNs that read no
            edge attributes: then edge features are ignored.
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
            origin = f"channels of the network, {channels}"
            self.calling = try_out(gnn, channels, origin)
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
            edge_attr: Raw edge features, [e, c] or [e]; None if the data has none.
            batch: Index of the graph that each node is in, [n].
            subgraphs: Rooted subgraphs; required if `gnn` is a `GNNAK` layer, unused
                otherwise.
        """
        encoder, edges = self.edge_encoder, (edge_attr, edge_index.size(1))
        if self.calling is not None:
            gnn, calling = self.gnn, self.calling
            if encoder is None:
                return calling(gnn, x, edge_index, None, batch)
            return run_with_edges(
                encoder,
                *edges,
                lambda states: calling(gnn, x, edge_index, states, batch),
            )
        if subgraphs is None:
            raise SubgraphError(
                "an uplifted layer got no rooted subgraphs; build the network with an "
                "extractor, or pass subgraphs."
            )
        assert isinstance(self.gnn, GNNAK)
        if encoder is None:
            return self.gnn(x, subgraphs)
        return run_uplifted(self.gnn, encoder, *edges, x, subgraphs)


class OuterLayer(nn.Module):
    r"""One layer of `Network`: GNNs, BatchNorm, ReLU, dropout and a residual sum.

    $$x \leftarrow x + \text{Dropout}(\text{ReLU}(\text{BN}(\sum_i K_i(x))))$$

    Args:
        kernels: The GNNs $K_i$, whose outputs are summed. Usually there is one; there
            are two if a conv on the whole graph is added to a GNN-AK layer.
        channels: Width of the node states.
        dropout: Dropout probability after the ReLU.
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
        """Compute new node states, [n, c]; arguments as in `Kernel.forward`."""
        given = (x, edge_index, edge_attr, batch, subgraphs)
        out = reduce(add, (kernel(*given) for kernel in self.kernels))
        return self.after.added_to(x, out)
