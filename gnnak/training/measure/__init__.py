"""Benchmarks of training: seconds by phase, peak memory and GPU kernels."""
