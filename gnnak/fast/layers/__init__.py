"""Fused implementations of GNN-AK layers: fewer kernels, less memory for training.

Each computation is a `torch.autograd.Function` on top of `gnnak.fast.kernels`. Tensors
with a row per node copy are by far the largest of a network. If such a tensor can be
recomputed cheaply in the backward pass, it is not saved for backward.

Names that all modules share:

- The *centroid* of a rooted subgraph is the node copy of its root.
- Variables: `c` are the states of node copies, `e` the states of the graph's edges, and
  `k` the scale and shift of a batch norm (`NormConstants`).
- `norm_follows` is True if the result is the input of a batch norm that uses the
  statistics of the batch. That norm subtracts the mean of every column. So a constant
  added to a column, such as a bias, cancels, and its gradient is zero.
"""
