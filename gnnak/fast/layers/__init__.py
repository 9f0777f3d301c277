"""Fused implementations of GNN-AK layers: fewer kernels, less memory for training.

Each computation is a `torch.autograd.Function` on top of `gnnak.fast.kernels`. Tensors
with a row per node copy are by far the largest of a network; wherever one can be
recomputed cheaply in the backward pass, it is not saved for it.

Names that all modules share: a *copy* is a node copy, that is, a node seen in one
rooted subgraph; `c` holds the states of copies and `e` those of edges; *normed* means
the output of a batch norm, and `k` holds the norm's constants (`NormConstants`);
`norm_follows` tells whether the result goes into a batch norm that uses the statistics
of the batch. That norm subtracts the mean of every column, so that a constant added to
a column, such as a bias, cancels and its gradient is zero.
"""
