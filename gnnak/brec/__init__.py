"""The BREC benchmark: how many of 400 pairs of graphs a trained network distinguishes.

Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness" (2024). A new
network is trained on each pair, and a statistical test compares the two embeddings.
"""
