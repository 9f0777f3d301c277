"""Load data sets by name: read from files, generated, or downloaded."""

from gnnak.datasets.cache import Request, cache_dir
from gnnak.datasets.describe import Description, describe_dataset
from gnnak.datasets.record import Dataset, DatasetInfo, Entry, Published
from gnnak.datasets.registry import (
    DATASETS,
    dataset_names,
    find_entry,
    load_dataset,
    load_entry,
)

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetInfo",
    "Description",
    "Entry",
    "Published",
    "Request",
    "cache_dir",
    "dataset_names",
    "describe_dataset",
    "find_entry",
    "load_dataset",
    "load_entry",
]
