"""Names that the help texts of `gnnak` list: WL tests, graph families and others.

Other modules define these names, but import PyTorch, which `--help` must not do. So the
names are repeated here; `tests/cli/test_help.py` checks that they agree with the
definitions. WL stands for Weisfeiler-Leman, FWL for the folklore variant of WL.
"""

WL_TESTS = (
    "1-wl",
    "2-wl",
    "3-wl",
    "2-fwl",
    "3-fwl",
    "subgraph-1-wl*",
    "subgraph-1-wl",
    "swl",
    "pswl",
    "gswl",
    "sswl",
    "2-lfwl",
    "2-slfwl",
)
"""Names of the Weisfeiler-Leman (WL) tests, as in `gnnak.wl.TESTS`."""
WL_HASHES = ("exact", "1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl")
"""Values of the option `--hash` of `subgraph-1-wl`, as in `gnnak.wl.HASHES`."""
WL_READOUTS = ("vs", "sv")
"""Values of the option `--readout`, as in `gnnak.wl.pair_tests.READOUTS`."""
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
    "separating",
    "connected",
)
"""Names of the graph families that `gnnak wl lab` can run on: the keys of
`gnnak.wl.families.FAMILIES`."""
WL_NETWORKS = ("gin", "gin-ak", "gin-ak+", "ppgn", "ppgn-ak")
"""Names of the networks that `gnnak wl lab` runs by default, as in
`gnnak.wl.networks.LAB_NETWORKS`."""
BREC_GROUPS = (
    "basic",
    "regular",
    "strongly-regular",
    "extension",
    "cfi",
    "4-vertex",
    "distance-regular",
)
"""Names of the groups of pairs in BREC: the keys of `gnnak.brec.data.GROUPS`."""
GROWING = ("nodes", "hops", "channels", "coverage")
"""Quantities that `gnnak bench --grow` can vary: the keys of
`gnnak.training.measure.growth.RANGES`."""
