"""Assemble batches of graphs with their subgraphs: windows, padding, prefetching."""
