"""Public test helpers: check the symmetries that every GNN must have.

The helpers take a function that maps a PyG `Data` or `Batch` to a tensor, so they work
for any model:

>>> from torch_geometric.nn import GIN
>>> from gnnak import uplift
>>> net = uplift(GIN(4, 8, num_layers=2), num_hops=1).double().eval()
>>> for data in small_graphs(channels=4).values():
...     assert_permutation_equivariant(lambda d: net(d.x, d.edge_index), data)
"""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

Function = Callable[[Data], Tensor]
"""The model to test: a function that maps a `Data` or `Batch` to a tensor."""

EDGES: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "empty": (0, []),
    "single node": (1, []),
    "no edges": (3, []),
    "path": (3, [(0, 1), (1, 0), (1, 2), (2, 1)]),
    "two components": (5, [(0, 1), (1, 0), (2, 3), (3, 2), (3, 4), (4, 3)]),
    "self loop": (3, [(0, 0), (0, 1), (1, 0), (2, 2)]),
    "duplicate edge": (3, [(0, 1), (0, 1), (1, 0), (1, 2), (2, 1)]),
    "directed": (4, [(0, 1), (1, 2), (2, 0), (3, 2)]),
    "trailing isolated node": (4, [(0, 1), (1, 0), (1, 2), (2, 1)]),
    "star": (6, [(0, i) for i in range(1, 6)] + [(i, 0) for i in range(1, 6)]),
}
"""The graphs of `small_graphs`, by name. Each graph is a pair: the number of nodes, and
the list of directed edges (source, target)."""


def small_graphs(
    channels: int = 4,
    edge_channels: int | None = None,
    dtype: torch.dtype = torch.double,
    seed: int = 0,
) -> dict[str, Data]:
    """Return small graphs that cover corner cases, with random features.

    Args:
        channels: Number of columns of `x`.
        edge_channels: Number of columns of `edge_attr`. If None, graphs have no
            `edge_attr`.
        dtype: Dtype of the features.
        seed: Seed of the random features.

    Returns:
        The graphs, by their names in `EDGES`.
    """
    generator = torch.Generator().manual_seed(seed)
    graphs = {}
    for name, (num_nodes, edges) in EDGES.items():
        edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
        data = Data(edge_index=edge_index.contiguous())
        data.x = torch.randn(num_nodes, channels, dtype=dtype, generator=generator)
        if edge_channels is not None:
            data.edge_attr = torch.randn(
                len(edges), edge_channels, dtype=dtype, generator=generator
            )
        graphs[name] = data
    return graphs


def permute(data: Data, order: Tensor, seed: int = 0) -> Data:
    """Return the graph with permuted nodes and shuffled edges.

    Node `order[i]` becomes node `i`. All node-level and edge-level tensors (as PyG
    classifies them) are permuted too; other attributes are unchanged.

    Args:
        data: The graph, on any device; it is not modified.
        order: A permutation of the node indices, on any device.
        seed: Seed of the random order of the edges.
    """
    order = order.to(data.edge_index.device)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel(), device=order.device)
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(data.edge_index.size(1), generator=generator)
    renamed = copy.copy(data)
    renamed.edge_index = rank[data.edge_index][:, shuffled.to(order.device)]
    for key, value in data.to_dict().items():
        if key == "edge_index" or not isinstance(value, Tensor):
            continue
        at_nodes, at_edges = data.is_node_attr(key), data.is_edge_attr(key)
        if at_nodes or at_edges:
            rows = (order if at_nodes else shuffled).to(value.device)
            renamed[key] = value.index_select(data.__cat_dim__(key, value), rows)
    return renamed


def assert_permutation_equivariant(
    function: Function, data: Data, tolerance: float = 1e-9, seed: int = 0
) -> None:
    """Assert that a model is equivariant to permutations of nodes and edges.

    The nodes of `data` are permuted, and its edges are shuffled. An output with one row
    per node must be permuted in the same way. An output with one row per graph must not
    change.

    Args:
        function: Maps a `Data` to a tensor with one row per node or one row per graph.
        data: The graph to test with.
        tolerance: Largest allowed difference, absolute and relative.
        seed: Seed of the random permutation, which is never the identity if there are
            two or more nodes.
    """
    num_nodes = data.num_nodes
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed))
    if torch.equal(order, torch.arange(num_nodes)):
        order = order.roll(1)
    before, after = function(data), function(permute(data, order, seed))
    if before.size(0) == num_nodes:
        before = before[order.to(before.device)]
    torch.testing.assert_close(after, before, rtol=tolerance, atol=tolerance)


def assert_batching_consistent(
    function: Function, graphs: Sequence[Data], tolerance: float = 1e-9
) -> None:
    """Assert that a batch of graphs gives the same output as each graph separately.

    Args:
        function: Maps a `Batch` to a tensor with one row per node or per graph.
        graphs: The graphs to batch.
        tolerance: Largest allowed difference, absolute and relative.
    """
    alone = torch.cat([function(Batch.from_data_list([graph])) for graph in graphs])
    batched = function(Batch.from_data_list(list(graphs)))
    torch.testing.assert_close(batched, alone, rtol=tolerance, atol=tolerance)
