"""Assemble batches of graphs with their rooted subgraphs.

A window is several consecutive batches that are assembled together and then split.
Batches can be padded to a few fixed shapes, and are prefetched on a GPU. `RootLoader`
samples mini-batches of seed nodes of one large graph.
"""

from gnnak.loading.graph_loader import GraphLoader
from gnnak.loading.order import Budget
from gnnak.loading.root_loader import RootLoader

__all__ = ["Budget", "GraphLoader", "RootLoader"]
