"""The layers of the paper's network (`OuterLayer`), and the GNNs inside (`Kernel`).

An outer layer is one GNN-AK layer, or one GNN on the whole graph, with BatchNorm, ReLU,
dropout and a residual sum. "Outer" sets it apart from the layers of the base GNN inside
a GNN-AK layer.
"""

from collections.abc import Callable, Sequence
from typing import cast

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
        encoder, num_edges = self.edge_encoder, edge_index.size(1)
        if encoder is None:
            return self.run(x, edge_index, None, batch, subgraphs)
        if isinstance(self.gnn, GNNAK) and subgraphs is not None:
            given = (encoder, edge_attr, num_edges)
            return run_uplifted(self.gnn, *given, x, subgraphs)
        return run_with_edges(
            encoder,
            edge_attr,
            num_edges,
            lambda states: self.run(x, edge_index, states, batch, subgraphs),
        )

    def run(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_states: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
    ) -> Tensor:
        """Run the GNN with edge states, [e, c], or with None if it reads none.

        The other arguments are those of `forward`.
        """
        if self.calling is not None:
            return self.calling(self.gnn, x, edge_index, edge_states, batch)
        if subgraphs is None:
            raise SubgraphError(
                "an uplifted layer got no rooted subgraphs; build the network with an "
                "extractor, or pass subgraphs."
            )
        return self.gnn(x, subgraphs, edge_states)


class OuterLayer(nn.Module):
    r"""One layer of `Network`: GNNs, BatchNorm, ReLU, dropout and a residual sum.

    $$x \leftarrow x + \text{Dropout}(\text{ReLU}(\text{BN}(\sum_i K_i(x))))$$

    Args:
        kernels: The GNNs $K_i$, whose outputs are summed. Usually there is one; there
            are two if a conv on the whole graph is added to a GNN-AK layer. The second
            then has no edge encoder: it reads the first c channels of the edge states
            of the first.
        channels: Width of the node states.
        dropout: Dropout probability after the ReLU.
    """

    def __init__(
        self, kernels: Sequence[Kernel], channels: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not kernels:
            raise OptionError("an OuterLayer has no kernels; give at least one.")
        if any(kernel.edge_encoder is not None for kernel in kernels[1:]):
            raise OptionError(
                "only the first kernel of an OuterLayer may have an edge encoder; the "
                "others read its edge states."
            )
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
        first, *others = cast("list[Kernel]", list(self.kernels))
        if not others:
            out = first(x, edge_index, edge_attr, batch, subgraphs)
            return self.after.added_to(x, out)
        states = narrow = None
        if first.edge_encoder is not None:
            states = first.edge_encoder(edge_attr, edge_index.size(1))
            narrow = states[:, : x.size(1)].contiguous()
        out = first.run(x, edge_index, states, batch, subgraphs)
        for kernel in others:
            out = out + kernel.run(x, edge_index, narrow, batch, subgraphs)
        return self.after.added_to(x, out)
