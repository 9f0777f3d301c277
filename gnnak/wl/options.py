"""Names of the tests, and their options with validation."""

from dataclasses import dataclass, fields
from difflib import get_close_matches

from gnnak.errors import OptionError
from gnnak.typing import check_choice, check_count
from gnnak.wl.subgraph import REFINEMENTS

TESTS: tuple[str, ...] = (*REFINEMENTS, "subgraph-1-wl*", "subgraph-1-wl")
"""The names of all tests."""

HASHES: tuple[str, ...] = ("exact", *REFINEMENTS)
"""The choices for the HASH that `subgraph-1-wl` applies to each egonet."""


@dataclass(frozen=True)
class Options:
    """The options of a test; tests without subgraphs take only the last two.

    >>> Options(num_hops=2, d2c=True).num_hops
    2
    """

    num_hops: int = 1
    """Radius of the egonets."""
    hash: str = "exact"
    """The HASH that `subgraph-1-wl` applies to each egonet, one of `HASHES`."""
    d2c: bool = False
    """Whether the initial colours in an egonet include the distance to the centroid
    (D2C), which is the root."""
    root_mark: bool = False
    """Whether the root has a distinct initial colour in its egonet."""
    centroid: bool = False
    """Whether a node's new colour includes its colour in its own egonet."""
    context: bool = False
    """Whether a node's new colour includes its colours in all egonets."""
    labels: bool = True
    """Whether node and edge labels are the initial colours."""
    max_memory: float = 8.0
    """Memory limit in GiB; a test that is estimated to need more is refused."""

    def __post_init__(self) -> None:
        check_count("num_hops", self.num_hops)
        check_choice("hash", self.hash, HASHES)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is bool and not isinstance(value, bool):
                raise OptionError(f"{field.name} is {value!r}; use True or False.")
        number = isinstance(self.max_memory, int | float)
        if not number or isinstance(self.max_memory, bool) or not self.max_memory > 0:
            raise OptionError(
                f"max_memory is {self.max_memory!r}; give a positive number of GiB."
            )


def known_options(test: str) -> tuple[str, ...]:
    """Return the names of the options that `test` takes.

    >>> known_options("1-wl")
    ('labels', 'max_memory')
    """
    check_test(test)
    names = tuple(field.name for field in fields(Options))
    if test in REFINEMENTS:
        return names[-2:]
    return names if test == "subgraph-1-wl" else tuple(n for n in names if n != "hash")


def check_test(test: str) -> None:
    """Raise `OptionError` with the closest known name if the test is unknown.

    >>> check_test("subgraph-1wl*")
    Traceback (most recent call last):
    gnnak.errors.OptionError: there is no test 'subgraph-1wl*'; did you mean \
'subgraph-1-wl*'? Known: 1-wl, 2-wl, 3-wl, 2-fwl, 3-fwl, subgraph-1-wl*, subgraph-1-wl.
    """
    if test not in TESTS:
        raise OptionError(
            f"there is no test {test!r};{_nearest(str(test), TESTS)} "
            f"Known: {', '.join(TESTS)}."
        )


def read_options(test: str, **options: object) -> Options:
    """Validate the options of `test` and fill in the defaults.

    Raises:
        OptionError: If the test, or one of its options, is unknown or out of range.

    >>> read_options("1-wl", d2c=True)
    Traceback (most recent call last):
    gnnak.errors.OptionError: 1-wl has no option 'd2c'; it takes labels, max_memory.
    """
    known = known_options(test)
    for name in options:
        if name not in known:
            hint = _nearest(name, known)
            raise OptionError(
                f"{test} has no option {name!r};{hint} it takes {', '.join(known)}."
            )
    if test == "subgraph-1-wl*":
        options["hash"] = "1-wl"
    return Options(**options)  # type: ignore[arg-type]


def _nearest(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, n=1)
    return f" did you mean {near[0]!r}?" if near else ""
