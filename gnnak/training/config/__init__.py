"""The options of a run: dataclasses, and how to set them from YAML or `key=value`."""
