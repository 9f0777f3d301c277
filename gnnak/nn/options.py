"""Every option of a GNN-AK layer, in one record.

`GNNAK`, `uplift` and `ModelOptions` take their options from here: a new option is one
field of `LayerOptions` and one of `LayerChanges`, and the code that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict

from gnnak.typing import (
    Encoding,
    FuseMode,
    Reduce,
    check_choice,
    check_count,
    check_encodings,
    check_known,
    check_share,
)


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Options of a GNN-AK layer.

    The defaults, `PAPER`, are the paper's equations of GNN-AK+ and nothing more;
    `PUBLISHED` adds what the published experiments do beyond the equations.
    """

    hop_channels: int = 16
    """Width h of the encoding of the distance to the centroid (D2C); 0 = no distances
    and no gates, as in GNN-AK."""
    encodings: tuple[Encoding, ...] | None = None
    """The encodings that are fused; None = all three."""
    reduce: Reduce = "sum"
    """The pool of the subgraph and the context encoding."""
    fuse: FuseMode = "concat"
    """How encodings are fused; "concat" is followed by a Linear to the output width."""
    dropout: float = 0.0
    """Share of the concatenated encodings that is dropped before they are fused."""
    mlp_layers: int = 0
    """Number of transforms (Linear, BatchNorm, ReLU) of the copies' states before the
    subgraph pool and before the context pool, where more than one encoding is fused.
    The fuse "concat" has the same number of Linears, and at least one. Not in the
    paper's equations."""
    gate_centroid: bool = False
    """Whether the centroid encoding has a gate, too: that of hop 0. Not in the paper's
    equations."""

    def __post_init__(self) -> None:
        check_count("hop_channels", self.hop_channels)
        if self.encodings is not None:
            object.__setattr__(self, "encodings", check_encodings(self.encodings))
        check_choice("reduce", self.reduce, ("sum", "mean"))
        check_choice("fuse", self.fuse, ("concat", "sum"))
        check_share("dropout", self.dropout)
        check_count("mlp_layers", self.mlp_layers)

    def changed(self, **changes: Any) -> Self:
        """Return a copy in which some options have other values.

        >>> PAPER.changed(reduce="mean").reduce
        'mean'
        >>> PAPER.changed(reduse="mean")
        Traceback (most recent call last):
        gnnak.errors.OptionError: there is no option 'reduse'; did you mean 'reduce'? \
Known: hop_channels, encodings, reduce, fuse, dropout, mlp_layers, gate_centroid.
        """
        known = [field.name for field in fields(self)]
        for name in changes:
            check_known("option", name, known)
        return replace(self, **changes)


class LayerChanges(TypedDict, total=False):
    """The options of `LayerOptions` as keyword arguments, for type checkers."""

    hop_channels: int
    encodings: Sequence[Encoding]
    reduce: Reduce
    fuse: FuseMode
    dropout: float
    mlp_layers: int
    gate_centroid: bool


PAPER = LayerOptions()
PUBLISHED = LayerOptions(mlp_layers=1, gate_centroid=True)
