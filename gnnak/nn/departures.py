"""What the published experiments do beyond the paper's equations, in one record."""

from dataclasses import dataclass

from gnnak.typing import check_count, check_share


@dataclass(frozen=True)
class Departures:
    """Options of a GNN-AK layer that the paper does not state.

    `PAPER`, the default, is the equations and nothing more; `PUBLISHED` is what the
    published runs add to them.
    """

    mlp_layers: int = 0
    """Transforms (Linear, BatchNorm, ReLU) of the copies before the subgraph pool and
    before the context pool, each its own, where more than one encoding is selected.
    The concatenating fuse has as many Linears, and at least one."""
    gate_centroid: bool = False
    """Whether the centroid encoding, too, has a gate: that of hop 0."""
    dropout: float = 0.0
    """Share of the concatenated encodings dropped before they are fused."""

    def __post_init__(self) -> None:
        check_count("mlp_layers", self.mlp_layers)
        check_share("dropout", self.dropout)


PAPER = Departures()
PUBLISHED = Departures(mlp_layers=1, gate_centroid=True)
