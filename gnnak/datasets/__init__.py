"""Load data sets by name: read from files, generated, or downloaded."""

from gnnak.datasets.cache import Request
from gnnak.datasets.catalogue import DATASETS
from gnnak.datasets.describe import Description, describe_dataset
from gnnak.datasets.entry import Entry, Published
from gnnak.datasets.finding import cache_dir
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.datasets.registry import (
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
