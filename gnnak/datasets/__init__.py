"""Data sets, built or read."""
