"""Find out whether a training step of a network can be captured as a CUDA graph.

A capture records kernels without running them, so a captured step must not synchronise:
the host cannot wait for results on the device, such as the number of nodes.
"""

from torch import nn
from torch_geometric.nn import GATConv, GCNConv

from gnnak.fast.layers.layer import is_always_fused
from gnnak.nn.uplift import GNNAK
from gnnak.optional import has_triton

SYNCHRONISING_CONVS = (GCNConv, GATConv)
"""PyG convs whose forward pass synchronises with the device: the host waits for the
number of self loops."""


def find_synchronising(network: nn.Module, precision: str = "32") -> nn.Module | None:
    """Return the first module of a network whose forward pass synchronises.

    A module that synchronises cannot be captured as a CUDA graph. Modules declare this
    by an attribute `synchronises`; `SYNCHRONISING_CONVS` lists convs of PyG, which do
    not have this attribute. A GNN-AK layer that is always fused never calls the convs
    inside it, so these convs are not checked.

    Args:
        network: The network, in training mode.
        precision: Training precision; layers are fused only for "32".

    Returns:
        The module; None if no module synchronises.
    """
    known = isinstance(network, SYNCHRONISING_CONVS)
    if getattr(network, "synchronises", known):
        return network
    fused = precision == "32" and has_triton()
    if isinstance(network, GNNAK) and fused and is_always_fused(network):
        return None
    for child in network.children():
        found = find_synchronising(child, precision)
        if found is not None:
            return found
    return None
