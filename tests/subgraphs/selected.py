"""Select some of the subgraphs of a record, in Python loops."""

from torch import Tensor

from gnnak.subgraphs import RootedSubgraphs


def rows(subgraphs: RootedSubgraphs, roots: Tensor | None = None, nodes=0, edges=0):
    """Return nodes, distances and edges by root; shift numbers of nodes and edges."""
    found = {}
    for number, root in enumerate(subgraphs.root.tolist()):
        inside = (subgraphs.subgraph == number).nonzero().flatten()
        first = int(inside[0])
        at = subgraphs.subgraph[subgraphs.edge_index[1]] == number
        found[root + nodes] = (
            (subgraphs.node[inside] + nodes).tolist(),
            subgraphs.hop[inside].tolist(),
            (subgraphs.edge_index[:, at] - first).tolist(),
            (subgraphs.edge[at] + edges).tolist(),
        )
    if roots is None:
        return found
    return {root: found[root] for root in roots.tolist()}
