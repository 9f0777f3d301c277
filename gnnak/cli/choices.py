"""Names of tests, families and quantities that help texts list.

They repeat names that are defined in modules that import PyTorch, because `--help` must
not import PyTorch. `tests/cli/test_help.py` checks that both agree. WL stands for
Weisfeiler-Leman, FWL for the folklore variant of WL.
"""

WL_TESTS = ("1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl", "subgraph-1-wl*", "subgraph-1-wl")
"""Names of the WL tests, as in `gnnak.wl.TESTS`."""
WL_HASHES = ("exact", "1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl")
"""Values of the option `--hash` of `subgraph-1-wl`, as in `gnnak.wl.HASHES`."""
WL_FAMILIES = (
    "four-regular",
    "cycles",
    "trees",
    "regular",
    "circulant",
    "csl",
    "srg16",
    "srg25",
    "srg26",
    "srg28",
    "cfi-k4",
    "cfi-petersen",
    "cfi-heawood",
    "cfi-dodecahedron",
    "connected",
)
"""Families of graphs: the keys of `gnnak.wl.families.registry.FAMILIES`."""
GROWING = ("nodes", "hops", "channels", "coverage")
"""Quantities that `gnnak bench --grow` can vary: the keys of
`gnnak.training.measure.growth.RANGES`."""
