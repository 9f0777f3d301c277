"""The options of a GNN-AK layer; add new ones to `LayerOptions` and `LayerChanges`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any, Self, TypedDict

from gnnak.errors import OptionError
from gnnak.nn.copies import REDUCES
from gnnak.typing import (
    ENCODINGS,
    LAYER_PAIRS,
    Encoding,
    FuseMode,
    LayerPair,
    Reduce,
    check_choice,
    check_count,
    check_known,
    check_names,
    check_share,
)


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Options of a GNN-AK layer.

    The defaults, `PAPER`, give the equations of GNN-AK+ in the paper. `PUBLISHED` adds
    MLPs and a gate of the centroid encoding, as in the code published with the paper.
    """

    hop_channels: int = 16
    """Width of the embedding of the distance to the root (the paper's distance to the
    centroid, D2C). If 0, the layer has no distances and no gates, as in GNN-AK."""
    encodings: tuple[Encoding, ...] | None = None
    """The encodings that are fused to the new state of a node. If None, all three: the
    centroid, the subgraph and the context encoding."""
    reduce: Reduce = "sum"
    """How the subgraph encoding and the context encoding pool node states, "sum" or
    "mean": POOL in the paper's equations."""
    fuse: FuseMode = "concat"
    """How the encodings of a node are fused: "sum" adds them; "concat" concatenates
    them and maps the result to the output width by a Linear."""
    dropout: float = 0.0
    """Dropout probability before the MLPs that precede the pools (see `mlp_layers`),
    and after the concatenation of the encodings."""
    mlp_layers: int = 0
    """Number of layers of each MLP: before the subgraph pool, before the context pool,
    and after the concatenation of the encodings. With a single encoding, there is no
    MLP before the pool. If 0, there are no MLPs; a Linear follows the concatenation."""
    gate_centroid: bool = False
    """Whether the centroid encoding also has a gate. In the paper's equations, only the
    subgraph and the context encoding have one."""
    pairs: tuple[LayerPair, ...] = ("distance",)
    """Encodings of a pair (root, node) that make up the embedding of width
    `hop_channels`: "distance", as in the paper; "rrwp", random-walk probabilities of
    0..20 steps; "resistance"; "distance-counts", the number of nodes at each pair of
    distances to the root and to the node, up to 3. See `GNNAK`."""

    def __post_init__(self) -> None:
        check_count("hop_channels", self.hop_channels)
        if self.encodings is not None:
            names = check_names("encodings", self.encodings, ENCODINGS)
            object.__setattr__(self, "encodings", names)
        check_choice("reduce", self.reduce, REDUCES)
        check_choice("fuse", self.fuse, ("concat", "sum"))
        check_share("dropout", self.dropout)
        check_count("mlp_layers", self.mlp_layers)
        object.__setattr__(self, "pairs", check_names("pairs", self.pairs, LAYER_PAIRS))
        if self.pairs != ("distance",) and not self.hop_channels:
            raise OptionError(
                f"pairs is {self.pairs!r}, but hop_channels is 0, so that the layer "
                "reads no encodings of pairs; leave pairs out, or give hop_channels=16."
            )

    @staticmethod
    def resolve(
        options: LayerOptions, changes: Mapping[str, Any], function: Callable[..., Any]
    ) -> LayerOptions:
        """Return a copy of `options` with new values for the options in `changes`.

        Messages about unknown options also name the keyword arguments of `function`.

        Raises:
            OptionError: If `options` is not a `LayerOptions`, or a change is invalid.

        >>> LayerOptions.resolve(16, {}, print)
        Traceback (most recent call last):
        gnnak.errors.OptionError: options is 16; give a LayerOptions, such as \
gnnak.PUBLISHED, or single options by name, such as hop_channels=16.
        """
        if not isinstance(options, LayerOptions):
            raise OptionError(
                f"options is {options!r}; give a LayerOptions, such as "
                "gnnak.PUBLISHED, or single options by name, such as hop_channels=16."
            )
        own = list(signature(function).parameters.values())
        known = [each.name for each in own if each.default is not each.empty]
        known += [field.name for field in fields(options)]
        for name in changes:
            check_known("option", name, known)
        return replace(options, **changes)

    def changed(self, **changes: Any) -> Self:
        """Return a copy of these options with new values for the given options.

        Raises:
            OptionError: If an option is unknown or its value is invalid.

        >>> PAPER.changed(reduce="mean").reduce
        'mean'
        >>> PAPER.changed(reduse="mean")
        Traceback (most recent call last):
        gnnak.errors.OptionError: there is no option 'reduse'; did you mean 'reduce'? \
Known: hop_channels, encodings, reduce, fuse, dropout, mlp_layers, gate_centroid, \
pairs.
        """
        known = [field.name for field in fields(self)]
        for name in changes:
            check_known("option", name, known)
        return replace(self, **changes)


class LayerChanges(TypedDict, total=False):
    """Types of the keyword arguments that override fields of `LayerOptions`."""

    hop_channels: int
    encodings: Sequence[Encoding]
    reduce: Reduce
    fuse: FuseMode
    dropout: float
    mlp_layers: int
    gate_centroid: bool
    pairs: Sequence[LayerPair]


PAPER = LayerOptions()
"""Options of GNN-AK+ as in the equations of the paper; the defaults."""
PUBLISHED = LayerOptions(mlp_layers=1, gate_centroid=True)
"""Options of GNN-AK+ as in the code that was published with the paper."""
