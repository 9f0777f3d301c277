"""Graphs that are hard to tell apart, built here, with what is known of them."""

from gnnak.graphs.named import four_regular_pair, rook, shrikhande
from gnnak.wl.families.cfi import cfi_pair
from gnnak.wl.families.circulant import circulant, circulants, csl
from gnnak.wl.families.small import (
    connected_graphs,
    cycle_and_two,
    regular_pair,
    trees,
)
from gnnak.wl.families.strongly_regular import srg16, srg25, srg26, srg28

__all__ = [
    "cfi_pair",
    "circulant",
    "circulants",
    "connected_graphs",
    "csl",
    "cycle_and_two",
    "four_regular_pair",
    "regular_pair",
    "rook",
    "shrikhande",
    "srg16",
    "srg25",
    "srg26",
    "srg28",
    "trees",
]
