"""Batches of graphs and their subgraphs: cut, padded, and made ahead of the steps."""
