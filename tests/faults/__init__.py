"""Faults on purpose: kills, damaged files, full disks, threads, hostile files.

`make faults` runs all of them and prints a table. Each function tries one kind of fault
many times and counts how the tries ended.
"""
