"""The options of a run: records, YAML experiments, changes by name."""
