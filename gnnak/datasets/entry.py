"""Entries of the data set registry: all that is known before loading."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gnnak.datasets.cache import Request
from gnnak.datasets.record import Dataset, DatasetInfo


class Published(NamedTuple):
    """A row of the paper's table of data set statistics, as printed."""

    graphs: str
    """Number of graphs, `train / validation / test` if there is a split."""
    nodes: str
    """Mean number of nodes."""
    edges: str
    """Mean number of edges."""
    once: bool = False
    """Whether an undirected edge counts as one edge instead of two."""
    over_training: tuple[str, ...] = ()
    """Which of `nodes` and `edges` are means over the training graphs only."""
    note: str = ""
    """Known reason why these numbers differ from the data; empty if there is none."""


@dataclass(frozen=True)
class Entry:
    """One data set of the registry: its task, its loader, the paper's statistics."""

    info: DatasetInfo
    """Name, task, metric and protocols; loading fills in features and source."""
    description: str
    """One-line description for `gnnak datasets list`."""
    file_name: str | None
    """Name of the data file; None if the data set is always generated."""
    origin: str
    """How the graphs are obtained if the file is not found: `built` (deterministic),
    `generated` (random), `download`, or `file only` if they cannot be."""
    load: Callable[[DatasetInfo, Request], Dataset]
    """Loads the data set, given `info` and the options of the load."""
    published: Published | None = None
    """The paper's statistics; None if the data set is not in its table."""
    targets: tuple[str, ...] = ()
    """Names of the targets, the default first; empty if there is only one target."""

    @property
    def name(self) -> str:
        """Name of the data set in gnnak."""
        return self.info.name
