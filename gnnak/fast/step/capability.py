"""Find out whether a training step of a network can be captured as a CUDA graph.

A capture records kernels without running them, so a captured step must not synchronise:
the host cannot wait for results on the device, such as the number of nodes.
"""

from torch import nn
from torch_geometric.nn import GATConv, GCNConv

from gnnak.fast.layers.layer import is_always_fused
from gnnak.nn.base.ppgn import PPGN
from gnnak.nn.uplift import GNNAK
from gnnak.optional import has_triton

SYNCHRONISING_CONVS = (GCNConv, GATConv, PPGN)
"""Base GNNs whose forward pass in plain PyTorch synchronises with the device: the host
waits for the number of self loops, or of nodes per graph."""


def find_synchronising(network: nn.Module, precision: str = "32") -> nn.Module | None:
    """Return the first module of a network whose forward pass synchronises.

    A module that synchronises cannot be captured as a CUDA graph. Modules declare this
    by an attribute `synchronises` that is True; `SYNCHRONISING_CONVS` lists base GNNs
    without this attribute. A GNN-AK layer that is always fused never calls the convs
    inside it, so these convs are not checked.

    Args:
        network: The network, in training mode.
        precision: Training precision; layers are fused only for "32".

    Returns:
        The module; None if no module synchronises.
    """
    if isinstance(network, SYNCHRONISING_CONVS):
        return network
    if getattr(network, "synchronises", False):
        return network
    fused = precision == "32" and has_triton()
    if isinstance(network, GNNAK) and fused and is_always_fused(network):
        return None
    for child in network.children():
        found = find_synchronising(child, precision)
        if found is not None:
            return found
    return None
