"""Assemble batches of graphs with their rooted subgraphs.

A window is several consecutive batches that are assembled together and then split.
Batches can be padded to a few fixed shapes, and are prefetched on a GPU.
"""
