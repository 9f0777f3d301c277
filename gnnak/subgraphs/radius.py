"""`WithRadius`: the options that extractors of egonets share."""

from dataclasses import dataclass, field

from gnnak.subgraphs.copy_limit import check_limit
from gnnak.typing import convert_count


@dataclass(frozen=True)
class WithRadius:
    """Options of extractors whose subgraphs have a radius, such as `EgoNets`."""

    num_hops: int
    """Radius k: an egonet contains the nodes at most k hops away from its root."""
    copy_limit: int | None = field(default=None, kw_only=True, repr=False)
    """The largest number of node copies and edge copies together (nodes and edges,
    counted in each subgraph). A call that would extract more raises `SizeError`. None =
    as many as fit into the free memory of the device. `MaskedEgoNets` counts the copies
    of whole graphs, from which it removes edges."""

    random = False
    """Always False: extraction is deterministic, so subgraphs can be cached across
    epochs."""

    def __post_init__(self) -> None:
        convert_count(self, "num_hops")
        check_limit(self.copy_limit)

    @property
    def max_hops(self) -> int:
        """The largest possible distance from a node of an egonet to its root."""
        return self.num_hops
