"""Assemble batches of graphs with their rooted subgraphs.

A window is several consecutive batches that are assembled together and then split.
Batches can be padded to a few fixed shapes, and are prefetched on a GPU.
"""

from gnnak.loading.graph_loader import GraphLoader
from gnnak.loading.order import Budget

__all__ = ["Budget", "GraphLoader"]
