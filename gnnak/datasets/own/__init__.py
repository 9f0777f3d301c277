"""The user's own data: read from files or lists, with targets, task and split."""

from gnnak.datasets.own.load import OwnDataset, load_own
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.read import Reading, as_rows

__all__ = ["OwnData", "OwnDataset", "Reading", "as_rows", "load_own"]
