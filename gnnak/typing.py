"""Types and checks of common options, and the glossary of all docstrings.

- A *rooted subgraph* is the part of a graph around one node, such as its egonet.
- The *root*, or *centroid*, is the node around which a rooted subgraph is extracted.
- An *extractor* finds the rooted subgraphs of a graph, such as `EgoNets(2)`.
- An *egonet* has all nodes within k hops of the root, and all edges between them.
- *Ring* r of an egonet has the nodes at distance r from the root.
- The *hop* of a node copy is its distance to the root, in edges.
- The *base GNN* is what a GNN-AK layer runs on rooted subgraphs: GIN in GIN-AK.
- A *node copy* is a node as it occurs in one rooted subgraph: a node in three rooted
  subgraphs has three node copies.
- An *edge copy* is an edge as it occurs in one rooted subgraph.
- A *conv* is a graph convolution, such as PyG's `GCNConv`.
- A *state* is the vector that a network computes for a node, an edge or a node copy.
- The *encodings* of a node are its state as the root of a subgraph (centroid), its
  subgraph's pooled states (subgraph) and its pooled states in all subgraphs (context).
- To *pool* states is to sum or average those of a group.
- A *gate* is learned factors in 0..1 that multiply a node copy's state before a pool.
- A *hop table* has one row per hop, such as the embeddings of hops, or the gates.
- A *readout* is the last part of a network, which pools states.
- To *uplift* a GNN is to replace each conv by a GNN-AK layer, which runs the conv on
  rooted subgraphs.
- A *slice* is several consecutive rooted subgraphs that a layer encodes at a time.
- *Streamed subgraphs* do not fit into memory: each slice is extracted when needed.
- *SubgraphDrop* trains on a sample of the roots. The other roots are dropped; their
  states are estimated from the subgraphs that contain them.
- The *coverage* of a node is the number of sampled subgraphs that contain it.
- A *seed* of a `RootLoader` is a node of a large graph whose output is wanted.
- A *scope* is the sampled neighbourhood of a single seed.
- *Groups* divide the rows of a tensor by a key, such as the node of each row.
- An *operation* is a function that a backend can replace by a faster implementation.
- *Fused* operations run in one kernel, or in few, and store fewer tensors.
- To *synchronise* is to wait on the CPU until the GPU has finished.
- *Padding* is rows at the end of a tensor that only bring it to a fixed size.
- The *padded form* of a batch is the same batch with padding.
- *Real rows* are the rows of a tensor that are not padding.
- A *window* is several consecutive batches that are assembled together, then split.
- A *capture* records the GPU kernels of a training step as a CUDA graph; later steps
  replay it without launching each kernel.

Shapes such as `[m, c]` are written with one letter per axis: `n` nodes, `e` directed
edges (an undirected edge is two), `g` graphs, `s` rooted subgraphs, `m` node copies,
`f` edge copies, `c` channels, `k` hops, `t` rows of a hop table, `p` pairs of nodes.
All graphs of a batch are counted together.
"""

import difflib
import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Literal, TypeVar, get_args

from gnnak.errors import OptionError

Encoding = Literal["centroid", "subgraph", "context"]
"""The encodings of a node that a GNN-AK layer computes; see `gnnak.GNNAK`."""
Reduce = Literal["sum", "mean"]
"""How several node states are pooled into one."""
FuseMode = Literal["concat", "sum"]
"""How a GNN-AK layer combines the encodings of a node into the node's new state."""
HopMode = Literal["concat", "add"]
"""How the base GNN's input is built from a node's state and its hop embedding."""
Residual = Literal["sum", "linear"]
"""How a layer of a network adds its input to its output."""
ReadoutOrder = Literal["VS", "SV"]
""""VS" first pools the node copies of each subgraph; "SV" first pools the copies of
each node."""
Norm = Literal["batch", "none"]
"""Whether a subgraph GNN has BatchNorms."""
LayerPair = Literal["distance", "rrwp", "resistance", "distance-counts"]
"""Encodings of a pair (root, node) that a GNN-AK layer can read; see `gnnak.GNNAK`."""
PairEncoding = Literal["mark", LayerPair]
"""Encodings of a pair (root, node); see `gnnak.nn.family.gnn.PairEncoder`."""

LAYER_PAIRS: tuple[LayerPair, ...] = get_args(LayerPair)
PAIRS: tuple[PairEncoding, ...] = get_args(PairEncoding)
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)

Name = TypeVar("Name", bound=str)

SEEDS = 2**63
"""Seeds must be less than this number, to fit into a signed 64-bit integer."""


def check_choice(option: str, value: object, known: Iterable[str]) -> None:
    """Raise `OptionError` if `value` is not one of the known values."""
    known = tuple(known)
    if value not in known:
        raise OptionError(f"{option} is {value!r}; use one of: {', '.join(known)}.")


ALTERNATIVES = {
    "k": "num_hops",
    "hops": "num_hops",
    "radius": "num_hops",
    "acc": "accuracy",
}
"""Maps wrong names that users may write to the names that error messages suggest."""


def check_known(
    what: str, name: str, known: Iterable[str], more: str = "", of: str = ""
) -> None:
    """Raise `OptionError` unless `name` is known; the message suggests a similar name.

    In the message, `of` follows the name, and `more` follows the known names.

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
    if ALTERNATIVES.get(name) in lower:
        near = [ALTERNATIVES[name]]
    hint = f"did you mean '{lower[near[0]]}'? Known:" if near else "use one of:"
    raise OptionError(
        f"there is no {what} {name!r}{of}; {hint} {', '.join(names)}{more}."
    )


def check_no_list(flag: str, name: str, known: Iterable[str]) -> None:
    """Raise `OptionError` if a name is a list of known names, joined by commas."""
    parts = [part.strip() for part in name.split(",")]
    if name not in known and parts[1:] and set(parts) <= set(known):
        raise OptionError(
            f"{flag} is {name!r}, which are several names; repeat "
            f"--{flag.replace('_', '-')} for each name (in Python, give a list)."
        )


def unknown_model(
    name: str, known: Iterable[str], bases: Iterable[str], members: Iterable[str]
) -> OptionError:
    """Return the error for an unknown model; `members` are GNNs such as "dss"."""
    near = difflib.get_close_matches(name, known, n=1)
    if name in members:  # without a base GNN, all of which are equally close
        near = [f"{name}-gin"]
    hint = f"did you mean {near[0]!r}? Use" if near else "use"
    if "," in name:
        hint = f"give one, or --over model={name} to gnnak sweep; use"
    return OptionError(
        f"unknown model {name!r}; {hint} one of {', '.join(bases)} or your own "
        "package.module:Class, alone or with the suffix -ak, -ak+, -ak-s or -ak+-s, or "
        f"after one of {', '.join(members)} and a hyphen, such as sswl+-gin."
    )


def check_count(option: str, value: object, least: int = 0) -> int:
    """Return `value` if it is an int of at least `least`, else raise `OptionError`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(
            f"{option} is {value!r}; give a whole number of at least {least}."
        )
    return value


def as_count(option: str, value: object, least: int = 0) -> int:
    """Convert an int or a NumPy integer to int; raise `OptionError` for other values.

    >>> import numpy
    >>> as_count("batch_size", numpy.int64(32), least=1)
    32
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = int(value)
    return check_count(option, value, least)


def convert_count(record: object, option: str, least: int = 0) -> None:
    """Check the count in field `option` of a frozen dataclass; convert it to int."""
    count = as_count(option, getattr(record, option), least)
    object.__setattr__(record, option, count)


def check_flag(option: str, value: object) -> None:
    """Raise `OptionError` unless `value` is True or False."""
    if not isinstance(value, bool):
        raise OptionError(f"{option} is {value!r}; give True or False.")


def check_seed(option: str, value: object) -> int:
    """Return `value` if it is an int from 0 to 2^63 - 1, else raise `OptionError`."""
    seed = check_count(option, value)
    if seed >= SEEDS:
        raise OptionError(f"{option} is {value}; give a whole number below 2^63.")
    return seed


def check_positive(option: str, value: float) -> None:
    """Raise `OptionError` unless `value` is finite and greater than 0."""
    if not 0 < value < math.inf:
        raise OptionError(f"{option} is {value}; give a finite number greater than 0.")


def check_share(option: str, value: object) -> None:
    """Raise `OptionError` unless `value` is a number with 0 <= value < 1."""
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise OptionError(
            f"{option} is {value!r}; give a number with 0 <= {option} < 1."
        )


def check_names(
    option: str, names: Sequence[Name], known: Sequence[Name]
) -> tuple[Name, ...]:
    """Check that names are known and unique, and return them as a tuple."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise OptionError(f"{option} is {names!r}; give a tuple of names.")
    for name in names:
        check_choice(f"a name in {option}", name, known)
    if not names or len(set(names)) != len(names):
        raise OptionError(
            f"{option} is {tuple(names)!r}; name at least one, each once."
        )
    return tuple(names)
