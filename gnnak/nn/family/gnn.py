"""`SubgraphGNN`: a GNN whose states of node copies live on from layer to layer.

A node copy is a node as it occurs in one rooted subgraph. In the equations of this
package, $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.errors import OptionError, SubgraphError
from gnnak.nn.checks import check_subgraphs
from gnnak.nn.padding import on_copies
from gnnak.nn.recompute import recomputed
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.encodings import StructuralEncoding
from gnnak.subgraphs.rooted import RootedSubgraphs


class SubgraphGNN(nn.Module):
    r"""A subgraph GNN: initial states, layers on node copies, and a readout to nodes.

    $$h^0 = \text{START}(x), \qquad h^{t} = \text{LAYER}_t(h^{t-1}), \qquad
        x' = \text{READOUT}(h^0, \dots, h^L)$$

    The members of the family, such as `ds_gnn` and `sswl_gnn`, are such compositions. A
    later pool of $x'$ over the nodes of a graph gives the state of the graph.

    Args:
        start: Maps (x, subgraphs, edge_index, batch) to the initial states $h^0$: of
            node copies, [m, c], or of nodes, [n, c], for layers that compute node
            states. A start that reads structural encodings lists them in an attribute
            `encodings`. See `gnnak.nn.pairs.PairEncoder`.
        layers: Each maps (h, subgraphs, edge_index, edge_attr) to new states.
        readout: Maps ([h^0, ..., h^L], subgraphs) to node states, [n, out_channels].
        out_channels: Width of the node states after the readout.

    Attributes:
        recompute: In training, save only the states between layers for the backward
            pass, which recomputes the activations inside each layer.
    """

    def __init__(
        self,
        start: nn.Module,
        layers: Sequence[nn.Module],
        readout: nn.Module,
        out_channels: int,
    ) -> None:
        super().__init__()
        if not layers:
            raise OptionError("a SubgraphGNN has no layers; give at least one.")
        self.start = start
        self.layers = nn.ModuleList(layers)
        self.readout = readout
        self.out_channels = out_channels
        self.recompute = False

    @property
    def encodings(self) -> tuple[StructuralEncoding, ...]:
        """The structural encodings that the network reads; see `WithEncodings`."""
        return getattr(self.start, "encodings", ())

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        subgraphs: RootedSubgraphs | None = None,
    ) -> Tensor:
        """Compute node states, [n, out_channels].

        Args:
            x: Node states, [n, c].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge attributes, [e, c] or [e]; None if there are none.
            batch: Index of the graph that each node is in, [n]; None = all nodes are
                in one graph.
            subgraphs: The rooted subgraphs, one per node.
        """
        if subgraphs is None:
            raise SubgraphError(
                "a subgraph GNN got no rooted subgraphs; build the network with an "
                "extractor, or pass subgraphs."
            )
        check_subgraphs(subgraphs, x, edge_attr)
        if isinstance(subgraphs, SampledSubgraphs):
            raise SubgraphError(
                "a subgraph GNN got a sample of the rooted subgraphs, but it reads the "
                "subgraphs of all nodes; leave SubgraphDrop out, or use GNN-AK, such "
                "as gin-ak+-s."
            )
        with on_copies(subgraphs):
            h = self.start(x, subgraphs, edge_index, batch)
            states = [h]
            for layer in self.layers:
                given = (states[-1], subgraphs, edge_index, edge_attr)
                if self.recompute and self.training:
                    states.append(recomputed(layer, *given))
                else:
                    states.append(layer(*given))
            return self.readout(states, subgraphs)
