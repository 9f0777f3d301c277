"""GNNs to uplift: stacks of PyG convs, PNA* and PPGN."""
