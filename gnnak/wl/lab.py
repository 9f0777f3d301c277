"""The command `gnnak wl lab`: count the pairs of graphs that WL tests distinguish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar

from gnnak.errors import GraphError
from gnnak.wl.bounds import Contender
from gnnak.wl.compare import partition_with_rounds
from gnnak.wl.families import FAMILIES, family, pairs_apart
from gnnak.wl.refinement import REFINEMENTS

Result = TypeVar("Result")
LAB_FAMILIES = tuple(
    name for name in FAMILIES if name not in ("cfi-heawood", "cfi-dodecahedron")
)
"""Default families of `gnnak wl lab`; 2-FWL takes minutes on the two other families."""


_PLUS = {"d2c": True, "centroid": True, "context": True}

LAB_CONTENDERS = (
    *(Contender(test) for test in REFINEMENTS),
    Contender("subgraph-1-wl*", {"num_hops": 1}),
    Contender("subgraph-1-wl*", {"num_hops": 2}),
    Contender("subgraph-1-wl*", {"num_hops": 1, **_PLUS}),
    Contender("subgraph-1-wl*", {"num_hops": 2, **_PLUS}),
    Contender("subgraph-1-wl", {"num_hops": 1, "hash": "3-wl"}),
    Contender("subgraph-1-wl", {"num_hops": 1}),
    Contender("subgraph-1-wl", {"num_hops": 2}),
    Contender("swl"),
    Contender("swl", {"readout": "sv"}),
    Contender("pswl"),
    Contender("pswl", {"readout": "sv"}),
    *(Contender(test) for test in ("gswl", "sswl", "2-lfwl", "2-slfwl")),
)


@dataclass(frozen=True)
class LabResult:
    """The result of one WL test, or one network, on one family of graphs."""

    family: str
    contender: str
    """A test with its options; or the name of a network with `random` or `trained`, for
    its weights, and its radius, or with `bound`, for the test that bounds it."""
    pairs: int
    """Number of pairs of non-isomorphic graphs that were compared."""
    apart: int | None
    """Number of pairs that were distinguished; None if the test was not run."""
    rounds: int | None
    """Number of rounds until colours are stable; None for networks, or if not run."""
    seconds: float
    """Run time; 0 if the test was not run."""
    note: str = ""
    """Why the test was not run; empty if it was run."""
    test: str = ""
    """For the `bound` of a network: the WL test with its options; empty otherwise."""


def timed(run: Callable[[], Result]) -> tuple[Result | None, float, str]:
    """Return `run()` (None on `GraphError`), its time in seconds, and an error text."""
    start = perf_counter()
    try:
        found = run()
    except GraphError as error:
        return None, 0.0, str(error)
    return found, perf_counter() - start, ""


def run_lab(
    families: Iterable[str] = LAB_FAMILIES,
    contenders: Iterable[Contender] = LAB_CONTENDERS,
    max_memory: float = 2.0,
) -> Iterator[LabResult]:
    """Run every WL test on every family of graphs, and yield the results one by one."""
    contenders = list(contenders)
    for name in families:
        groups = family(name)
        graphs = [graph for group in groups for graph in group]
        total = pairs_apart(groups, [0] * len(graphs))[0]
        for contender in contenders:
            options = {"max_memory": max_memory, **contender.options}
            run = partial(partition_with_rounds, contender.test, graphs, **options)
            found, seconds, note = timed(run)
            classes, rounds = found or (None, None)
            apart = None if classes is None else pairs_apart(groups, classes)[1]
            yield LabResult(name, contender.label, total, apart, rounds, seconds, note)
