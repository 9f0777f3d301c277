"""Benchmarks of training: seconds by phase, memory, GPU kernels, and their growth."""
