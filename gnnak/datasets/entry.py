"""What is known of a data set before it is loaded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gnnak.datasets.cache import Request
from gnnak.datasets.record import Dataset, DatasetInfo


class Published(NamedTuple):
    """A row of the paper's table of data set statistics, digits as printed."""

    graphs: str
    """Number of graphs, by part where there is a split."""
    nodes: str
    """Mean number of nodes."""
    edges: str
    """Mean number of edges."""
    once: bool = False
    """Whether undirected edges count once; else both directions count."""
    over_training: tuple[str, ...] = ()
    """Which of `nodes` and `edges` are means over the training graphs alone."""
    note: str = ""
    """Where the printed figure is known to mean something else."""


@dataclass(frozen=True)
class Entry:
    """One data set: its name, what is asked, the paper's row, how to load it."""

    info: DatasetInfo
    """What is asked; features and source are filled in by loading."""
    description: str
    """One line for `gnnak datasets list`."""
    file_name: str | None
    """The file that is looked for; None if there is none."""
    origin: str
    """Without the file: `built`, `generated`, `download`, or nothing: `file only`."""
    load: Callable[[DatasetInfo, Request], Dataset]
    """Loads it as asked."""
    published: Published | None = None
    """The paper's statistics; None if it has none."""
    targets: tuple[str, ...] = ()
    """What can be asked, the default first; empty if there is one question only."""

    @property
    def name(self) -> str:
        """The name it goes by here."""
        return self.info.name
