"""Families of graphs that are hard to tell apart, built and not read."""

from gnnak.graphs.families.cfi import cfi_pair
from gnnak.graphs.families.circulant import CSL_SKIPS, circulant, csl
from gnnak.graphs.families.strongly_regular import (
    is_strongly_regular,
    srg16,
    srg25,
    srg26,
    srg28,
)

__all__ = [
    "CSL_SKIPS",
    "cfi_pair",
    "circulant",
    "csl",
    "is_strongly_regular",
    "srg16",
    "srg25",
    "srg26",
    "srg28",
]
