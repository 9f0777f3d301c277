"""Names and options of the Weisfeiler-Leman (WL) tests.

The paper's HASH maps an egonet to a colour: by 1-WL in `subgraph-1-wl*`, and as the
user chooses in `subgraph-1-wl`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from gnnak.errors import OptionError
from gnnak.typing import check_choice, check_count, check_flag, check_known
from gnnak.wl.pair_tests import PAIR_TESTS, READOUTS
from gnnak.wl.refinement import REFINEMENTS

TESTS: tuple[str, ...] = (*REFINEMENTS, "subgraph-1-wl*", "subgraph-1-wl", *PAIR_TESTS)
"""The names of all Weisfeiler-Leman (WL) tests."""

HASHES: tuple[str, ...] = ("exact", *REFINEMENTS)
"""Values of `hash`: `subgraph-1-wl` maps an egonet to its isomorphism class (`exact`)
or to the result of a WL test."""


@dataclass(frozen=True)
class Options:
    """The options of a Weisfeiler-Leman (WL) test.

    `known_options` returns the options that a test takes. The defaults below are those
    of `subgraph-1-wl`. In the subgraph WL tests, such as `swl`, the default of
    `num_hops` is None (whole graphs) and the default of `root_mark` is True.

    >>> Options(num_hops=2, d2c=True).num_hops
    2
    """

    num_hops: int | None = 1
    """Radius of the egonets. If None, every subgraph is the whole graph; only the
    subgraph WL tests, such as `swl`, take None."""
    hash: str = "exact"
    """How `subgraph-1-wl` maps an egonet to a colour; one of `HASHES`."""
    d2c: bool = False
    """Whether initial colours in an egonet include the distance to the root (D2C)."""
    root_mark: bool = False
    """Whether the root of an egonet has an initial colour that no other node has."""
    centroid: bool = False
    """Whether a node's new colour includes its colour as the root of its own egonet."""
    context: bool = False
    """Whether a node's new colour includes its colours in all egonets with the node."""
    readout: str = "vs"
    """How `swl`, `pswl`, `gswl` and `sswl` pool the colours of pairs (root, node): `vs`
    first pools each subgraph, `sv` first pools each node over all subgraphs."""
    undirected: bool | None = None
    """If True, missing reverse edges are added. If False, edges are directed. None is
    like False, with a warning about tensors and PyG data without reverse edges."""
    labels: bool = True
    """Whether node and edge labels are initial colours. If False, they are ignored."""
    max_memory: float = 8.0
    """Memory limit in GiB; a test that is estimated to need more raises an error."""

    def __post_init__(self) -> None:
        if self.num_hops is not None:
            check_count("num_hops", self.num_hops)
        check_choice("readout", self.readout, READOUTS)
        check_choice("hash", self.hash, HASHES)
        for name in ("d2c", "root_mark", "centroid", "context", "labels"):
            check_flag(name, getattr(self, name))
        if self.undirected is not None:
            check_flag("undirected", self.undirected)
        number = isinstance(self.max_memory, int | float)
        if not number or isinstance(self.max_memory, bool) or not self.max_memory > 0:
            raise OptionError(
                f"max_memory is {self.max_memory!r}; give a positive number of GiB."
            )


def known_options(test: str) -> tuple[str, ...]:
    check_known("test", test, TESTS)
    names = tuple(field.name for field in fields(Options))
    if test in REFINEMENTS:
        return names[-3:]
    if test in PAIR_TESTS:
        pooled = () if PAIR_TESTS[test].pooled_at_once else ("readout",)
        return ("num_hops", "root_mark", *pooled, *names[-3:])
    unknown = ("readout",) if test == "subgraph-1-wl" else ("readout", "hash")
    return tuple(name for name in names if name not in unknown)


def check_options(test: str, options: Iterable[str], known: Sequence[str]) -> None:
    for name in options:
        check_known("option", name, known, of=f" of {test}")


def read_options(test: str, **options: object) -> Options:
    check_options(test, options, known_options(test))
    if test == "subgraph-1-wl*":
        options["hash"] = "1-wl"
    if test in PAIR_TESTS:
        options = {"num_hops": None, "root_mark": True, **options}
    elif "num_hops" in options:
        check_count("num_hops", options["num_hops"])
    return Options(**options)  # type: ignore[arg-type]
