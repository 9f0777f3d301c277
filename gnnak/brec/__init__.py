"""The BREC benchmark: how many of 400 pairs of graphs a trained network distinguishes.

Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness" (2024). For each
pair, a new network is trained to give the two graphs different embeddings; a paired
statistical test decides whether the embeddings differ.
"""
