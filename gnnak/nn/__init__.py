"""The uplift: GNN-AK layers around any GNN."""
