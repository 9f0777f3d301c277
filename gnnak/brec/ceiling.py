"""Count the pairs of BREC that each Weisfeiler-Leman (WL) test distinguishes.

The *ceiling* of a network is the count of a test that is at least as expressive.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from gnnak.brec.data import Pair
from gnnak.errors import GraphError
from gnnak.wl.bounds import Contender
from gnnak.wl.compare import estimated_bytes, run_test
from gnnak.wl.inputs import read_union
from gnnak.wl.lab import LAB_CONTENDERS
from gnnak.wl.options import Options, read_options

CHUNK_BYTES = 1 << 23
"""Largest estimated memory, in bytes, of the pairs that are tested together."""

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
"""The WL tests that `gnnak wl brec` runs by default, apart from those in `COSTLY`."""
COSTLY = ("3-wl", "3-fwl", "subgraph-1-wl")
"""Tests that take hours or too much memory; they run only if the user names them."""


@dataclass(frozen=True)
class BrecCount:
    """The result of a WL test on one group of pairs of BREC."""

    contender: str
    group: str
    pairs: int
    apart: int
    """Number of pairs that the test distinguishes."""
    missed: tuple[int, ...]
    """Indices, within the group, of the pairs that the test does not distinguish."""
    not_run: tuple[int, ...]
    """Indices of the pairs that were not tested, because they need too much memory."""
    seconds: float
    note: str = ""


def run_brec(
    groups: Mapping[str, Sequence[Pair]],
    contenders: Iterable[Contender],
    max_memory: float = 2.0,
    progress: Callable[[int], None] = lambda pairs: None,
) -> Iterator[BrecCount]:
    """Run each WL test on each group; yield one `BrecCount` per test and group."""
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
    """Return whether a test distinguishes each pair (None: failed), and the error."""
    found: list[bool | None] = []
    note = ""
    for chunk in _chunks(test, pairs, options):
        try:
            found += _apart(test, chunk, options)
        except GraphError as error:
            note = str(error)
            if len(chunk) > 1:
                for pair in chunk:
                    found += _distinguished(test, [pair], options, progress)[0]
                continue
            found.append(None)
        progress(len(chunk))
    return found, note if None in found else ""


def _chunks(
    test: str, pairs: Sequence[Pair], options: Options
) -> Iterator[Sequence[Pair]]:
    """Split a list of pairs into parts that need at most about `CHUNK_BYTES` each."""
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
    union = read_union([graph for pair in pairs for graph in pair], options.labels)
    for coloring in run_test(test, union, options):
        marks = coloring.fingerprints(union.num_graphs)
        apart = marks[::2] != marks[1::2]
        if bool(apart.all()):  # pairs stay distinguished: rounds only split colours
            break
    return list(apart.tolist())
