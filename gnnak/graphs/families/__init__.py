"""Non-isomorphic graphs that Weisfeiler-Leman (WL) tests can hardly distinguish."""

from gnnak.graphs.families.cfi import cfi_pair
from gnnak.graphs.families.circulant import CSL_SKIPS, circulant, csl
from gnnak.graphs.families.furer import furer_pair
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
    "furer_pair",
    "is_strongly_regular",
    "srg16",
    "srg25",
    "srg26",
    "srg28",
]
