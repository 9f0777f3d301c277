"""Benchmarks of training: seconds by phase, peak memory and GPU kernels.

`growth.py` benchmarks how the cost grows with the size of graphs or networks.
"""
