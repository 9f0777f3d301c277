"""Define the letters for tensor axes, and the types and checks of common options.

Docstrings write tensor shapes with these letters:

====  =====================================================
`n`   nodes of the graph, or of a batch (a disjoint union)
`e`   directed edges
`g`   graphs
`s`   rooted subgraphs
`m`   node copies: one per (rooted subgraph, node in it)
`f`   edge copies: one per (rooted subgraph, edge in it)
`c`   channels
`k`   hops
====  =====================================================
"""

import difflib
import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Literal, get_args

from gnnak.errors import OptionError

Encoding = Literal["centroid", "subgraph", "context"]
"""The three encodings of a node that a GNN-AK layer computes; see `gnnak.GNNAK`."""
Reduce = Literal["sum", "mean"]
"""How several node states are pooled into one: by their sum or by their mean."""
FuseMode = Literal["concat", "sum"]
"""How a GNN-AK layer combines the encodings of a node into the node's new state: as a
concatenation or as a sum."""
HopMode = Literal["concat", "add"]
"""How the input of the base GNN is built from a node's state and the embedding of the
node's distance to the root: by concatenation or by addition."""
ReadoutOrder = Literal["VS", "SV"]
"""The order of the pools of a subgraph GNN: "VS" first pools the vertices of each
subgraph, "SV" first pools the subgraphs that each vertex is in."""
PairEncoding = Literal["mark", "distance", "rrwp", "resistance"]
"""Encodings of a pair of a root and a node of its subgraph; see
`gnnak.nn.family.gnn.PairEncoder`."""

PAIRS: tuple[PairEncoding, ...] = get_args(PairEncoding)
"""The names of all encodings of a pair of a root and a node."""
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
"""The names of all encodings of a node that a GNN-AK layer can compute."""

SEEDS = 2**63
"""Seeds must be less than this number, to fit into a signed 64-bit integer."""


def check_choice(option: str, value: object, known: Iterable[str]) -> None:
    """Raise `OptionError` if `value` is not one of the known values.

    Args:
        option: Name of the option, for the error message.
        value: The value to check.
        known: The known values.

    >>> check_choice("reduce", "median", ("sum", "mean"))
    Traceback (most recent call last):
    gnnak.errors.OptionError: reduce is 'median'; use one of: sum, mean.
    """
    known = tuple(known)
    if value not in known:
        raise OptionError(f"{option} is {value!r}; use one of: {', '.join(known)}.")


def check_known(
    what: str, name: str, known: Iterable[str], more: str = "", of: str = ""
) -> None:
    """Raise `OptionError` if `name` is not one of the known names.

    The error message lists all known names, and suggests a similar one if there is any.

    Args:
        what: What `name` names, such as "data set", for the error message.
        name: The name to check.
        known: The known names.
        more: Text appended to the list of known names in the error message.
        of: Text appended to the name in the error message, such as " in new.csv".

    >>> check_known("data set", "zink", ("exp", "zinc"))
    Traceback (most recent call last):
    gnnak.errors.OptionError: there is no data set 'zink'; did you mean 'zinc'? \
Known: exp, zinc.
    """
    names = tuple(known)
    if name in names:
        return
    lower = {str(each).lower(): each for each in names}
    near = difflib.get_close_matches(str(name).lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean '{lower[near[0]]}'? Known:" if near else "use one of:"
    raise OptionError(
        f"there is no {what} {name!r}{of}; {hint} {', '.join(names)}{more}."
    )


def check_count(option: str, value: object, least: int = 0) -> int:
    """Return `value` if it is an int of at least `least`, else raise `OptionError`.

    Args:
        option: Name of the option, for the error message.
        value: The value to check.
        least: The smallest valid value.

    >>> check_count("num_hops", -1)
    Traceback (most recent call last):
    gnnak.errors.OptionError: num_hops is -1; give a whole number of at least 0.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(
            f"{option} is {value!r}; give a whole number of at least {least}."
        )
    return value


def as_count(option: str, value: object, least: int = 0) -> int:
    """Return a whole number as an int, also one of NumPy, or raise `OptionError`.

    Arguments as in `check_count`.

    >>> import numpy
    >>> as_count("batch_size", numpy.int64(32), least=1)
    32
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = int(value)
    return check_count(option, value, least)


def convert_count(record: object, option: str, least: int = 0) -> None:
    """Check a field of a frozen dataclass, and replace a number of NumPy by an int.

    Args:
        record: The dataclass, in its `__post_init__`.
        option: Name of the field.
        least: The smallest valid value.

    Raises:
        OptionError: If the field is no whole number of at least `least`.
    """
    count = as_count(option, getattr(record, option), least)
    object.__setattr__(record, option, count)


def check_flag(option: str, value: object) -> None:
    """Raise `OptionError` unless `value` is True or False.

    Args:
        option: Name of the option, for the error message.
        value: The value to check.

    >>> check_flag("shuffle", "no")
    Traceback (most recent call last):
    gnnak.errors.OptionError: shuffle is 'no'; give True or False.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{option} is {value!r}; give True or False.")


def check_seed(option: str, value: object) -> int:
    """Return `value` if it is an int from 0 to `SEEDS` - 1, else raise `OptionError`.

    Args:
        option: Name of the option, for the error message.
        value: The value to check.

    >>> check_seed("train.seed", 2**63)
    Traceback (most recent call last):
    gnnak.errors.OptionError: train.seed is 9223372036854775808; give a whole number \
below 2^63.
    """
    seed = check_count(option, value)
    if seed >= SEEDS:
        raise OptionError(f"{option} is {value}; give a whole number below 2^63.")
    return seed


def check_positive(option: str, value: float) -> None:
    """Raise `OptionError` unless `value` is finite and greater than 0.

    Args:
        option: Name of the option, for the error message.
        value: The value to check.

    >>> check_positive("lr", -1.0)
    Traceback (most recent call last):
    gnnak.errors.OptionError: lr is -1.0; give a finite number greater than 0.
    """
    if not 0 < value < math.inf:
        raise OptionError(f"{option} is {value}; give a finite number greater than 0.")


def check_share(option: str, value: object) -> None:
    """Raise `OptionError` unless `value` is a number with 0 <= value < 1.

    Args:
        option: Name of the option, for the error message.
        value: The value to check.

    >>> check_share("dropout", 1.5)
    Traceback (most recent call last):
    gnnak.errors.OptionError: dropout is 1.5; give a number with 0 <= dropout < 1.
    """
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise OptionError(
            f"{option} is {value!r}; give a number with 0 <= {option} < 1."
        )


def check_encodings(encodings: Sequence[Encoding]) -> tuple[Encoding, ...]:
    """Validate the names of encodings and return them as a tuple.

    Raises:
        OptionError: If there are no names, or if a name is unknown or occurs twice.

    >>> check_encodings(["subgraph", "context"])
    ('subgraph', 'context')
    """
    if isinstance(encodings, str) or not isinstance(encodings, Sequence):
        raise OptionError(f"encodings is {encodings!r}; give a tuple of names.")
    for name in encodings:
        check_choice("an encoding", name, ENCODINGS)
    if not encodings or len(set(encodings)) != len(encodings):
        raise OptionError(
            f"encodings is {tuple(encodings)!r}; name at least one, each once."
        )
    return tuple(encodings)
