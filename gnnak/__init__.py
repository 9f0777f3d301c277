"""Uplift any GNN from stars to rooted subgraphs."""
