"""Connected components of a batch, whatever the direction of its edges."""

import torch
from torch import Tensor


def components(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, int]:
    """The weakly connected component of every node.

    Smallest labels spread along edges, and every label jumps to the label of its own
    node, so that long paths take few rounds; at most `num_nodes` of them.

    Args:
        edge_index: Directed edges, [2, e]; their direction does not matter.
        num_nodes: Number of nodes, n.

    Returns:
        The component of each node, [n], numbered from 0 in order of their smallest
        node, and the number of components.

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
