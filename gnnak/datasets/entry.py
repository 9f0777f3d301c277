"""Entries of the data set registry: what is known about a data set before loading."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gnnak.datasets.cache import Request
from gnnak.datasets.record import Dataset, DatasetInfo


class Published(NamedTuple):
    """A row of the paper's table of data set statistics, as printed."""

    graphs: str
    """Number of graphs; written as `train / validation / test` if there is a split."""
    nodes: str
    """Mean number of nodes per graph, as printed in the paper."""
    edges: str
    """Mean number of edges per graph, as printed in the paper."""
    once: bool = False
    """Whether `edges` counts an undirected edge as one edge instead of two."""
    over_training: tuple[str, ...] = ()
    """Which of `"nodes"` and `"edges"` are means over the training graphs only; empty
    if both means are over all graphs."""
    note: str = ""
    """Known reason why the paper's numbers differ from the measured ones; empty if no
    reason is known."""


@dataclass(frozen=True)
class Entry:
    """Registry entry of one data set: its task, loader and statistics in the paper."""

    info: DatasetInfo
    """Name, task, metric and protocols (ways to split and score the data set); loading
    fills in features and source."""
    description: str
    """One-line description for `gnnak datasets list`."""
    file_name: str | None
    """Name of the data file; None if the data set is always generated."""
    origin: str
    """How the graphs are obtained if the data file is not found: `built` (by a
    deterministic construction), `generated` (at random) or `download`. `file only`:
    loading fails without the file."""
    load: Callable[[DatasetInfo, Request], Dataset]
    """Function that loads the data set, given `info` and the user's options."""
    published: Published | None = None
    """The row of the paper's table of data sets; None if the table does not have this
    data set."""
    targets: tuple[str, ...] = ()
    """Names of the targets that a user can choose from, the default first; empty if the
    data set has only one target."""

    @property
    def name(self) -> str:
        """Name of the data set in gnnak."""
        return self.info.name
