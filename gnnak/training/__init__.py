"""Train networks on data sets and record the results.

Read first: `config/`, `protocols.py`, `data.py`, `module.py`, `run.py`, `launch.py`.
"""
