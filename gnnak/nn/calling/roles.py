"""What the arguments of a GNN mean, told by their names."""

from typing import Literal

Role = Literal["node", "edge", "num_nodes"]
"""What an argument holds: a row or number per node, a row or number per edge, or the
number of nodes."""

NODE_ARGUMENTS = (
    *("x_0", "x0", "h_0", "h0"),
    *("pos", "normal", "coords", "node_type", "node_attr"),
)
"""Names of arguments with one row per node: initial states, positions, node types."""
TYPE_ARGUMENTS = ("edge_type", "node_type")
"""Names of arguments with one category, 0, 1, ..., per edge or node."""
POSITION_ARGUMENTS = ("pos", "normal", "coords")
"""Names of arguments with coordinates of nodes in space."""

OTHER_GRAPHS = {
    "_dict": "it works on heterogeneous graphs, but rooted subgraphs are taken of "
    "homogeneous graphs; convert the graphs with HeteroData.to_homogeneous() and use a "
    "conv with edge types, such as RGCNConv.",
    "hyperedge_index": "it works on hypergraphs, which have no rooted subgraphs here; "
    "leave it out with skip=.",
    "pos_edge_index": "it reads two graphs (positive and negative edges), but rooted "
    "subgraphs are taken of one graph; give both kinds in one edge_index and use a "
    "conv with edge types, such as RGCNConv.",
    "csr": "it reads the graph in a format of its own (csr, csc, perm); use the conv "
    "that takes edge_index, such as GATConv.",
}
"""Endings of argument names of convs that cannot be uplifted, and the reason."""
OTHER_CONVS = {
    "MeshCNNConv": "it needs exactly four edges per node, in a fixed order, which "
    "rooted subgraphs do not have; leave it out with skip=.",
}
"""Class names of further convs that cannot be uplifted, and the reason."""
OTHER_MODULES = {
    "Dense": "it takes dense adjacency matrices; use the conv that takes edge_index, "
    "such as GCNConv instead of DenseGCNConv.",
    "CuGraph": "it reads the graph in the format of cuGraph; use the conv that takes "
    "edge_index, such as SAGEConv instead of CuGraphSAGEConv.",
    "DimeNet": "its messages go from edge to edge and depend on angles, so that there "
    "are no node states to copy to rooted subgraphs; use SchNet.",
    "GNNFF": "its messages go from edge to edge, so that there are no node states to "
    "copy to rooted subgraphs; use SchNet.",
    "WLConv": "it takes colours (whole numbers) instead of node states; use "
    "WLConvContinuous, or the tests of gnnak.wl.",
    "XConv": "it takes no edge_index but builds its own graph, so there is no graph to "
    "take rooted subgraphs of; use PointNetConv.",
}
"""First letters of the class names of PyG modules that pass messages without PyG's
class MessagePassing, and the reason why they cannot be uplifted."""


def role_of(name: str) -> Role | None:
    """Return what an argument of this name holds; None if the name does not tell.

    >>> role_of("edge_type"), role_of("pos"), role_of("beta")
    ('edge', 'node', None)
    """
    if name in ("num_nodes", "dim_size"):
        return "num_nodes"
    if name in NODE_ARGUMENTS:
        return "node"
    return "edge" if name.startswith("edge_") and "index" not in name else None
