"""The layer of the paper's experiments, with few passes over memory."""
