"""Count exactly how many pairs of BREC each Weisfeiler-Leman (WL) test distinguishes.

BREC is a collection of pairs of graphs; see `gnnak.brec.data`. A network that is
bounded by a test cannot distinguish more pairs than the test, at any depth.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

from gnnak.errors import GraphError
from gnnak.graphs.named import Graph
from gnnak.wl.compare import estimated_bytes, run_test
from gnnak.wl.inputs import read_union
from gnnak.wl.lab import LAB_CONTENDERS, Contender
from gnnak.wl.options import Options, read_options

Pair = tuple[Graph, Graph]

CHUNK_BYTES = 1 << 23
"""Pairs are tested together as long as the test is estimated to need at most this much
memory, in bytes."""

_MARKED = tuple(
    Contender(test, {"num_hops": num_hops, **readout})
    for num_hops in (1, 2, 3, 6)
    for test, readout in (
        ("swl", {}),
        ("swl", {"readout": "sv"}),
        ("pswl", {}),
        ("pswl", {"readout": "sv"}),
        ("gswl", {}),
        ("sswl", {}),
    )
)
_UNMARKED = tuple(
    Contender("swl", {"num_hops": num_hops, "root_mark": False})
    for num_hops in (1, 2, 3)
)
BREC_CONTENDERS = (*LAB_CONTENDERS, *_MARKED, *_UNMARKED)
"""The WL tests, with options, that `gnnak wl brec` can run: those of the lab, and the
subgraph WL tests on egonets."""
COSTLY = ("3-wl", "3-fwl", "subgraph-1-wl")
"""Tests that take hours on all 400 pairs, or too much memory on the largest graphs, so
that `gnnak wl brec` runs them only if they are named. `2-fwl` is as powerful as
`3-wl`."""


@dataclass(frozen=True)
class BrecCount:
    """Which pairs of one group of BREC a WL test distinguishes."""

    contender: str
    """The test with its options."""
    group: str
    """Name of the group of pairs: a key of `gnnak.brec.data.GROUPS`."""
    pairs: int
    """Number of pairs of the group."""
    apart: int
    """Number of pairs that the test distinguishes."""
    missed: tuple[int, ...]
    """Indices, within the group, of the pairs that the test does not distinguish."""
    not_run: tuple[int, ...]
    """Indices, within the group, of the pairs that the test was not run on, because it
    would need too much memory."""
    seconds: float
    """Run time in seconds."""
    note: str = ""
    """Why the test was not run on some pairs; empty if it was run on all pairs."""

    def as_dict(self) -> dict[str, object]:
        """Return all fields as a dict that can be written as JSON."""
        return asdict(self)


def _no_progress(pairs: int) -> None:
    """Do nothing: the default of the argument `progress`."""


def run_brec(
    groups: Mapping[str, Sequence[Pair]],
    contenders: Iterable[Contender],
    max_memory: float = 2.0,
    progress: Callable[[int], None] = _no_progress,
) -> Iterator[BrecCount]:
    """Run every WL test on every group of pairs, and yield the counts one by one.

    Counts are exact: a test stops only if all pairs are distinguished or the colouring
    is stable.

    Args:
        groups: The pairs of each group, as `load_brec` returns them.
        contenders: The tests with their options.
        max_memory: Memory limit in GiB. A test is not run on pairs for which it is
            estimated to need more; `BrecCount.not_run` lists these pairs.
        progress: Function that is called with a number of pairs after each step.

    >>> from gnnak.graphs.named import four_regular_pair
    >>> groups = {"one pair": [four_regular_pair()]}
    >>> [row.apart for row in run_brec(groups, [Contender("1-wl"), Contender("swl")])]
    [0, 1]
    """
    for contender in contenders:
        options = read_options(
            contender.test, **{"max_memory": max_memory, **contender.options}
        )
        for name, pairs in groups.items():
            start = perf_counter()
            found, note = _distinguished(contender.test, pairs, options, progress)
            yield BrecCount(
                contender.label,
                name,
                len(pairs),
                found.count(True),
                tuple(index for index, apart in enumerate(found) if apart is False),
                tuple(index for index, apart in enumerate(found) if apart is None),
                perf_counter() - start,
                note,
            )


def _distinguished(
    test: str, pairs: Sequence[Pair], options: Options, progress: Callable[[int], None]
) -> tuple[list[bool | None], str]:
    """Return for each pair whether the test distinguishes its graphs.

    None means that the test was not run on the pair; the second result is then the
    error message of one such pair, otherwise it is empty.
    """
    found: list[bool | None] = []
    note = ""
    for chunk in _chunks(test, pairs, options):
        try:
            found += _apart(test, chunk, options)
        except GraphError as error:
            note = str(error)
            if len(chunk) == 1:
                found.append(None)
            else:
                for pair in chunk:
                    found += _distinguished(test, [pair], options, _no_progress)[0]
        progress(len(chunk))
    return found, note if None in found else ""


def _chunks(
    test: str, pairs: Sequence[Pair], options: Options
) -> Iterator[Sequence[Pair]]:
    """Split a list of pairs into parts of about `CHUNK_BYTES` of estimated memory."""
    begin = size = 0
    for index, pair in enumerate(pairs):
        needed = estimated_bytes(test, read_union(pair), options)
        if index > begin and size + needed > CHUNK_BYTES:
            yield pairs[begin:index]
            begin, size = index, 0
        size += needed
    if pairs:
        yield pairs[begin:]


def _apart(test: str, pairs: Sequence[Pair], options: Options) -> list[bool | None]:
    """Return for each pair whether the test distinguishes its two graphs.

    The test runs on all pairs together, until all are distinguished or the colouring is
    stable. A distinguished pair stays distinguished, since rounds only split colours.
    """
    union = read_union([graph for pair in pairs for graph in pair], options.labels)
    for coloring in run_test(test, union, options):
        marks = coloring.fingerprints(union.num_graphs)
        apart = marks[::2] != marks[1::2]
        if bool(apart.all()):
            break
    return list(apart.tolist())
