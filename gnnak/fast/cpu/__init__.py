"""GNN-AK layers on a CPU: fewer passes over tensors with a row per node copy.

Many node copies are equal before messages are passed: those of one node at the same
distance from their roots. The modules of this package compute states and messages once
per pair (node, distance), sum with `torch.embedding_bag`, and multiply consecutive
weight matrices before they are applied. All operations are differentiable.
"""
