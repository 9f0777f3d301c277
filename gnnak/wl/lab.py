"""The lab: count for every test and family how many pairs the test distinguishes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter

from gnnak.errors import GraphError
from gnnak.wl.compare import partition_with_rounds
from gnnak.wl.families.registry import FAMILIES, family, pairs_apart
from gnnak.wl.options import TESTS, read_options

LAB_FAMILIES = tuple(
    name for name in FAMILIES if name not in ("cfi-heawood", "cfi-dodecahedron")
)
"""The families that `gnnak wl lab` runs by default; the others take minutes with
2-FWL."""


@dataclass(frozen=True)
class Contender:
    """A test with its options: one row of the table for each family."""

    test: str
    """One of `TESTS`."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Options`."""

    def __post_init__(self) -> None:
        read_options(self.test, **self.options)

    @property
    def label(self) -> str:
        """The name of the test, with its options in brackets.

        >>> Contender("subgraph-1-wl*", {"num_hops": 2, "d2c": True}).label
        'subgraph-1-wl* (num_hops=2, d2c)'
        """
        options = [k if v is True else f"{k}={v}" for k, v in self.options.items()]
        return f"{self.test} ({', '.join(options)})" if options else self.test


_PLUS = {"d2c": True, "centroid": True, "context": True}

LAB_CONTENDERS = (
    *(Contender(test) for test in TESTS if not test.startswith("subgraph")),
    Contender("subgraph-1-wl*", {"num_hops": 1}),
    Contender("subgraph-1-wl*", {"num_hops": 2}),
    Contender("subgraph-1-wl*", {"num_hops": 1, **_PLUS}),
    Contender("subgraph-1-wl*", {"num_hops": 2, **_PLUS}),
    Contender("subgraph-1-wl", {"num_hops": 1, "hash": "3-wl"}),
    Contender("subgraph-1-wl", {"num_hops": 1}),
    Contender("subgraph-1-wl", {"num_hops": 2}),
)
"""The tests that `gnnak wl lab` runs by default."""


@dataclass(frozen=True)
class LabResult:
    """The result of one test, or one network, on one family."""

    family: str
    """Name of the family."""
    contender: str
    """The test, or the network, and its options."""
    pairs: int
    """Number of pairs of graphs that are not isomorphic."""
    apart: int | None
    """Number of pairs distinguished; None if the test was not run."""
    rounds: int | None
    """Rounds until the colouring was stable; None for networks."""
    seconds: float
    """Run time."""
    note: str = ""
    """Why the test was not run; empty if it was."""

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return asdict(self)


def run_lab(
    families: Iterable[str] = LAB_FAMILIES,
    contenders: Iterable[Contender] = LAB_CONTENDERS,
    max_memory: float = 2.0,
) -> Iterator[LabResult]:
    """Run every test on every family; yield each result as soon as it is computed.

    Args:
        families: Keys of `FAMILIES`.
        contenders: The tests.
        max_memory: Memory limit in GiB. A test that is estimated to need more is not
            run; its result has a note.

    >>> [result.apart for result in run_lab(["srg16"], [Contender("3-wl")])]
    [0]
    """
    contenders = list(contenders)
    for name in families:
        groups = family(name)
        graphs = [graph for group in groups for graph in group]
        for contender in contenders:
            start = perf_counter()
            options = {"max_memory": max_memory, **contender.options}
            test = contender.test
            try:
                classes, rounds = partition_with_rounds(test, graphs, **options)
            except GraphError as error:
                total = pairs_apart(groups, [0] * len(graphs))[0]
                yield LabResult(
                    name, contender.label, total, None, None, 0.0, str(error)
                )
                continue
            total, apart = pairs_apart(groups, classes)
            seconds = perf_counter() - start
            yield LabResult(name, contender.label, total, apart, rounds, seconds)
