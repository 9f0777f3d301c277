"""The WL test that bounds a network: it tells apart all graphs that the network can."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gnnak.errors import OptionError
from gnnak.models.bases import BASES
from gnnak.models.factory import model_names, normal_name, parse_name
from gnnak.models.options import SubgraphKind, SubgraphOptions
from gnnak.typing import check_known
from gnnak.wl.options import TESTS, Options, check_options, known_options, read_options

_CENTROID: dict[str, object] = {"centroid": True}
PLUS: dict[str, object] = {"d2c": True, "centroid": True, "context": True}

BOUNDS: dict[str, tuple[str, dict[str, object]]] = {
    "gin": ("1-wl", {}),
    "gin-ak": ("subgraph-1-wl*", _CENTROID),
    "gin-ak+": ("subgraph-1-wl*", PLUS),
    "ppgn": ("2-fwl", {}),
    "ppgn-ak": ("subgraph-1-wl", {"hash": "2-fwl", **_CENTROID}),
    "ppgn-ak+": ("subgraph-1-wl", {"hash": "2-fwl", **PLUS}),
}
"""Maps a network on egonets to the name and options of a WL test that bounds the
network. The bounds of GIN hold for all base GNNs that 1-WL bounds: all of `BASES` but
PPGN. The bounds of GNN-AK also hold after training with SubgraphDrop (suffix `-s`)."""

WHOLE_BOUNDS: dict[str, str] = {"gin-ak": "1-wl", "gin-ak+": "gswl", "ppgn-ak": "2-fwl"}
"""Maps a network on whole graphs to a WL test that bounds it. GNN-AK then cannot
recognise the root; GNN-AK+ recognises the root by its distance, 0."""

EDGES_REMOVED_BOUNDS: dict[str, str] = {"gin-ak": "pswl", "gin-ak+": "gswl"}
"""Maps a network on whole graphs with some edges removed (node deletion, masked
egonets) to a WL test that bounds the network. The tests mark the root, because removed
edges reveal the root to the network. Conversely, stable colours of a graph with a
marked root reveal the removed edges."""

MEMBER_BOUNDS: dict[str, str] = {
    "khop": "pswl",
    "ego": "gswl",
    "id": "swl",
    "id-fast": "pswl",
    "nested": "swl",
    "ds": "swl",
    "dss": "gswl",
    "sun": "gswl",
    "sswl": "sswl",
    "sswl+": "sswl",
    "l2fgnn": "2-slfwl",
}
"""Maps a prefix such as "dss" of "dss-gin" to a WL test that bounds this subgraph GNN
with every base GNN that 1-WL bounds. Zhang et al. (2023) prove the bounds, except those
of k-hop GNN, Ego-GNN and ID-GNN-Fast, which we derived. Local 2-FGNN collects what GSWL
and SLFWL(2) collect; its bound is SLFWL(2), the more powerful of these two tests. "swl"
also bounds a k-hop GNN of one layer. The bound of Nested GNN is valid only without the
encoding "resistance"."""

_READS_MARK = ("nested", "ds", "dss", "sun", "sswl", "sswl+", "l2fgnn")
"""Subgraph GNNs that know the root only from encodings of pairs (root, node)."""


@dataclass(frozen=True)
class Contender:
    """A Weisfeiler-Leman (WL) test together with its options."""

    test: str
    options: Mapping[str, object] = field(default_factory=dict)
    """Values of fields of `Options`, by name. All other fields have their default."""
    network: str = field(default="", compare=False)
    """The network for which the test was chosen; empty if the user named the test."""

    def __post_init__(self) -> None:
        self.read()

    def read(self) -> Options:
        return read_options(self.test, **self.options)

    @property
    def label(self) -> str:
        """A text such as "gin-ak: subgraph-1-wl* (centroid, num_hops=3)"."""
        shown = {k: v for k, v in self.options.items() if k != "max_memory"}
        num_hops = self.read().num_hops
        if num_hops is not None and "num_hops" in known_options(self.test):
            shown["num_hops"] = num_hops
        options = ", ".join(k if v is True else f"{k}={v}" for k, v in shown.items())
        label = f"{self.test} ({options})" if options else self.test
        return f"{self.network}: {label}" if self.network else label


def has_bound(name: str) -> bool:
    form = parse_name(name)
    return form.base in BASES and not (form.member and form.has_node_pairs)


def check_bound(name: str) -> None:
    if not has_bound(name):
        raise OptionError(
            f"no WL test is known that bounds {name!r}; use one of "
            f"{', '.join(BASES)}, alone or with the suffix -ak, -ak+, -ak-s or -ak+-s, "
            f"or, except ppgn, after one of {', '.join(MEMBER_BOUNDS)} and a hyphen, "
            "such as sswl+-gin."
        )


def bound_of(
    name: str,
    num_hops: int | None = 1,
    marked: bool = True,
    kind: SubgraphKind | None = None,
) -> Contender:
    """Return a WL test that bounds a network; raise `OptionError` if none is known.

    `marked` says whether the input of a GNN in `MEMBER_BOUNDS` marks the root. If
    `kind` is None, `num_hops=None` means whole graphs, and a number means egonets.
    """
    check_bound(name)
    found = find_bound(name, num_hops, marked, kind)
    if found is None:
        raise OptionError(
            f"no WL test is known that bounds {name} on subgraphs of the kind "
            f"{kind or 'whole'!r}; use egonets."
        )
    return found


def find_bound(
    name: str,
    num_hops: int | None = 1,
    marked: bool = True,
    kind: SubgraphKind | None = None,
) -> Contender | None:
    """Like `bound_of`, but return None if no WL test is known to bound the network."""
    kind = kind or ("whole" if num_hops is None else "egonets")
    if kind in ("walks", "pagerank") or not has_bound(name):
        return None
    num_hops = num_hops if kind == "egonets" else None
    form = parse_name(name)
    if form.member is not None:
        return _member_bound(form.member, num_hops, marked, kind)
    base = "ppgn" if form.has_node_pairs else "gin"
    name = replace(form, base=base).unsampled_name
    test, options = BOUNDS[name]
    if "num_hops" not in known_options(test):
        return Contender(test, options)
    if kind != "egonets":
        bounds = WHOLE_BOUNDS if kind == "whole" else EDGES_REMOVED_BOUNDS
        if name not in bounds:
            return None
        has_hops = "num_hops" in known_options(bounds[name])
        return Contender(bounds[name], {"num_hops": None} if has_hops else {})
    return Contender(test, {**options, "num_hops": num_hops})


def _member_bound(
    member: str, num_hops: int | None, marked: bool, kind: SubgraphKind
) -> Contender:
    if member == "id-fast":
        num_hops = None
    elif member == "ego" and kind == "egonets":
        num_hops = 1
    options: dict[str, object] = {"num_hops": num_hops}
    unmarked = not marked and member in _READS_MARK
    if kind == "whole" and member == "ego":
        unmarked = True
    if unmarked and kind in ("egonets", "whole"):
        # In other kinds of subgraphs, the missing edges tell where the root is.
        options["root_mark"] = False
    return Contender(MEMBER_BOUNDS[member], options)


NETWORK_OPTIONS = ("num_hops", "undirected", "labels", "max_memory")
"""Options of a test that users can also give with the name of a network."""


def options_of(name: str) -> tuple[str, ...]:
    """Return the names of the options that users can give with a test or a network."""
    if name in TESTS:
        return known_options(name)
    known = known_options(find_test(name, {}).test)
    return tuple(option for option in NETWORK_OPTIONS if option in known)


def default_hops(name: str) -> int | None:
    """Return the default radius of a network's egonets; None means whole graphs."""
    return SubgraphOptions.num_hops if parse_name(name).kind == "egonets" else None


def find_test(name: str, options: Mapping[str, object]) -> Contender:
    """Return a test with its options. For a network, return the test that bounds it."""
    if name in TESTS:
        return Contender(name, dict(options))
    model = normal_name(name)
    if model not in model_names():
        check_known("test", name, TESTS, ", or a network such as gin-ak+ or sswl+-gin")
    given = dict(options)
    num_hops = given.pop("num_hops", default_hops(model))
    found = bound_of(model, num_hops)  # type: ignore[arg-type]
    known = known_options(found.test)
    check_options(name, options, [o for o in NETWORK_OPTIONS if o in known])
    return Contender(found.test, {**found.options, **given}, model)
