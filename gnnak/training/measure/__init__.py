"""What training costs: seconds by phase, memory, kernels, and how they grow."""
