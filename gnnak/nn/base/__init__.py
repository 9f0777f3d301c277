"""GNNs to run on rooted subgraphs (base GNNs): stacks of PyG convs, PNA* and PPGN."""
