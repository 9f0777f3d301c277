"""Random graphs for property tests."""

import torch
from hypothesis import strategies as st


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 9, directed: bool | None = None):
    """Any multigraph with self loops, as (edge_index, num_nodes); maybe undirected."""
    num_nodes = draw(st.integers(0, max_nodes))
    if num_nodes == 0:
        return torch.empty(2, 0, dtype=torch.long), 0
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=3 * num_nodes))
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t().contiguous()
    if directed is None:
        directed = draw(st.booleans())
    if not directed:
        mirrored = edge_index[:, edge_index[0] != edge_index[1]].flip(0)
        edge_index = torch.cat([edge_index, mirrored], dim=1)
    return edge_index, num_nodes
