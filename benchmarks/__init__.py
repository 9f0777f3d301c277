"""Benchmarks of speed, memory and accuracy, and the tables made from their records."""
