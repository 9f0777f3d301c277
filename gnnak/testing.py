"""Public test helpers: the symmetries every layer and model must have.

Each takes a function of a PyG `Data` or `Batch`, so that any model can be checked:

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


def small_graphs(
    channels: int = 4,
    edge_channels: int | None = None,
    dtype: torch.dtype = torch.double,
    seed: int = 0,
) -> dict[str, Data]:
    """The named corner cases, with random features.

    Args:
        channels: Width of `x`.
        edge_channels: Width of `edge_attr`; None = none.
        dtype: Type of both.
        seed: Fixes the features.
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
    """The same graph with node `order[i]` renamed to `i`, its edges shuffled.

    All tensors that PyG takes for node-level or edge-level move along; whatever else
    `data` holds stays as it is.

    Args:
        data: The graph, on any device; it is not changed.
        order: Every node once, [n], on any device.
        seed: Fixes the order of the edges.
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
    """Assert that renaming nodes and shuffling edges only renames the output.

    A function that gives one row per node must give the same rows in the new order;
    one that gives a row per graph must not change. (With one node both are one row.)

    Args:
        function: Maps a `Data` to node states [n, c] or to graph states [1, c].
        data: The graph to try it on.
        tolerance: Largest difference allowed, absolute and relative.
        seed: Fixes the renaming, which is never the identity with two nodes or more.
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
    """Assert that a batch gives what its graphs give one by one.

    Args:
        function: Maps a `Data` or a `Batch` to states of nodes or of graphs.
        graphs: The graphs to batch.
        tolerance: Largest difference allowed, absolute and relative.
    """
    alone = torch.cat([function(Batch.from_data_list([graph])) for graph in graphs])
    together = function(Batch.from_data_list(list(graphs)))
    torch.testing.assert_close(together, alone, rtol=tolerance, atol=tolerance)
