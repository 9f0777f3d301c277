"""GNN-AK layers on a CPU: fewer passes over tensors with a row per node copy.

A node copy is a node as it occurs in one rooted subgraph. Many node copies are equal
before messages are passed: those of one node at the same distance from their roots. The
modules of this package compute states and messages once per pair (node, distance), sum
with `torch.embedding_bag`, and multiply consecutive weight matrices before they are
applied. Everything is composed of differentiable operations.
"""
