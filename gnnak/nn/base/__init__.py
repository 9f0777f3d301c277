"""Base GNNs, which run on rooted subgraphs: stacks of PyG convs, PNA* and PPGN."""
