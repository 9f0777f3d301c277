"""Families of graphs that are not isomorphic but hard to distinguish by WL tests."""

from gnnak.graphs.families import (
    cfi_pair,
    circulant,
    csl,
    four_regular_pair,
    furer_pair,
    rook,
    shrikhande,
    srg16,
    srg25,
    srg26,
    srg28,
)
from gnnak.wl.families.circulants import circulants
from gnnak.wl.families.small import (
    connected_graphs,
    cycle_and_two,
    regular_pair,
    trees,
)

__all__ = [
    "cfi_pair",
    "circulant",
    "circulants",
    "connected_graphs",
    "csl",
    "cycle_and_two",
    "four_regular_pair",
    "furer_pair",
    "regular_pair",
    "rook",
    "shrikhande",
    "srg16",
    "srg25",
    "srg26",
    "srg28",
    "trees",
]
