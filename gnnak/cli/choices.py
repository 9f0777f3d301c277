"""Names that help texts list.

They repeat the keys of registries in modules that import PyTorch, because `--help` must
not import it. `tests/cli/test_help.py` checks that both lists agree.
"""

WL_TESTS = ("1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl", "subgraph-1-wl*", "subgraph-1-wl")
"""`gnnak.wl.TESTS`."""
WL_HASHES = ("exact", "1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl")
"""`gnnak.wl.HASHES`."""
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
"""Keys of `gnnak.wl.families.registry.FAMILIES`."""
GROWING = ("nodes", "hops", "channels", "coverage")
"""Keys of `gnnak.training.measure.growth.RANGES`."""
