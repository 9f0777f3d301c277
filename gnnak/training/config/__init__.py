"""The options of a run: dataclasses, YAML files, and changes of options by name."""
