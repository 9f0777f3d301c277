"""Records of runs, their summaries, and checkpoints."""
