"""PPGN on dense tensors with padding and masks: a reference for tests."""

import torch


def padded_ppgn(gnn, x, edge_index, edge_attr, batch):
    """Compute `gnn(x, edge_index, edge_attr, batch)` of a `PPGN`.

    All graphs are padded to the size of the largest one, as [g, n, n, w].
    """
    sizes = torch.bincount(batch)
    graphs, size = sizes.numel(), int(sizes.max())
    order = torch.argsort(batch, stable=True)
    position = torch.empty_like(batch)
    position[order] = torch.arange(batch.numel())
    position -= (sizes.cumsum(0) - sizes)[batch]
    source, target = edge_index
    dense = x.new_zeros(graphs, size, size, x.size(1))
    dense = dense.index_put((batch, position, position), x, accumulate=True)
    at = (batch[target], position[target], position[source])
    dense = dense.index_put(at, edge_attr, accumulate=True)
    real = torch.arange(size) < sizes[:, None]
    mask = (real[:, :, None] & real[:, None, :])[..., None]
    for block in gnn.blocks:
        left = (block.left(dense) * mask).permute(0, 3, 1, 2)
        right = (block.right(dense) * mask).permute(0, 3, 1, 2)
        product = (left @ right).permute(0, 2, 3, 1)
        dense = block.mix(torch.cat([dense, product], dim=3)) * mask
    diagonal = dense[batch, position, position]
    others = dense.sum(dim=2)[batch, position] - diagonal
    return gnn.readout(gnn.norm(torch.cat([diagonal, others], dim=1)))
