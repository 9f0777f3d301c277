"""Training steps captured as CUDA graphs."""
