"""Train networks on data sets and record the results.

Read in this order: `config/` (the options of a run), `protocols.py`, `data.py` and
`module.py` (splits, batches, network and loss), `run.py` (one run), `launch.py` (all
runs of an experiment). `measure/` benchmarks training; `schedule/` does many runs in
parallel.
"""
