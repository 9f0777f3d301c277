"""Fused implementations of GNN-AK layers: fewer kernels, less memory for training.

Each computation is a `torch.autograd.Function` on top of `gnnak.fast.kernels`. Tensors
with a row per node copy are by far the largest of a network; tensors that can be
recomputed cheaply in the backward pass are not saved for backward.

Names that all modules share:

- The *centroid* of a rooted subgraph is the node copy of its root.
- Variables: `c` are the states of node copies, `e` the states of the graph's edges, and
  `k` the scale and shift of a batch norm (`NormConstants`).
- In shapes, n counts nodes, e edges, s rooted subgraphs, m node copies, f edge copies,
  and t the rows of the hop table.
- `norm_follows` tells whether a result goes into a batch norm that uses the statistics
  of the batch. That norm subtracts the mean of every column, so that a constant added
  to a column, such as a bias, cancels and its gradient is zero.
"""
