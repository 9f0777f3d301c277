"""Devices, worker processes, and the signals that stop a run."""
