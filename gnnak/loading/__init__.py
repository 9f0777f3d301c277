"""Assemble batches of graphs with their rooted subgraphs."""

from gnnak.loading.graph_loader import GraphLoader
from gnnak.loading.order import Budget
from gnnak.loading.root_loader import RootLoader

__all__ = ["Budget", "GraphLoader", "RootLoader"]
