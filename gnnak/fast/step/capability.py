"""Find out whether a training step of a network can be captured as a CUDA graph.

A captured step must not synchronise with the device: kernels are recorded, not run.
"""

from torch import nn
from torch_geometric.nn import GATConv, GCNConv

from gnnak.fast.layers.layer import is_always_fused
from gnnak.nn.base.ppgn import PPGN
from gnnak.nn.uplift import GNNAK
from gnnak.optional import has_triton

SYNCHRONISING_CONVS = (GCNConv, GATConv, PPGN)
"""Base GNNs that read counts from the device: of self loops, or of nodes per graph."""


def find_synchronising(network: nn.Module, precision: str = "32") -> nn.Module | None:
    """Return the first module whose forward pass synchronises; None if none does.

    A layer that is always fused does not call its convs, so these do not count.

    Args:
        network: The network, in training mode.
        precision: The precision it is trained in; only "32" has fused layers.
    """
    if isinstance(network, SYNCHRONISING_CONVS):
        return network
    fused = precision == "32" and has_triton()
    if isinstance(network, GNNAK) and fused and is_always_fused(network):
        return None
    for child in network.children():
        found = find_synchronising(child, precision)
        if found is not None:
            return found
    return None
