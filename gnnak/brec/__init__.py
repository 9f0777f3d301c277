"""The BREC benchmark: for how many of 400 pairs of graphs the embeddings differ.

Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness" (2024).
"""
