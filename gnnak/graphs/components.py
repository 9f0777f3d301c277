"""Weakly connected components of a graph or a batch."""

import torch
from torch import Tensor


def components(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, int]:
    """Return the weakly connected component of every node.

    Uses label propagation: the first label of a node is its number. In every round,
    each node takes the smallest label among its own and its neighbours', and then the
    label of the node with that number (pointer jumping), so long paths need few rounds.
    There are at most `num_nodes` rounds.

    Args:
        edge_index: Directed edges, [2, e]; their direction is ignored.
        num_nodes: Number of nodes, n.

    Returns:
        The component of each node, [n], and the number of components. Components are
        numbered from 0 in the order of their smallest node.

    >>> components(torch.tensor([[3, 1], [0, 2]]), 5)
    (tensor([0, 1, 1, 0, 2]), 3)
    """
    source = torch.cat([edge_index[0], edge_index[1]])
    target = torch.cat([edge_index[1], edge_index[0]])
    label = torch.arange(num_nodes, device=edge_index.device)
    for _ in range(num_nodes):
        near = label.scatter_reduce(0, target, label[source], "amin")
        near = torch.minimum(near, label.scatter_reduce(0, label, near, "amin"))
        near = near[near]
        if torch.equal(near, label):
            break
        label = near
    smallest, component = torch.unique(label, return_inverse=True)
    return component, smallest.numel()
