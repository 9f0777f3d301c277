"""`PairEncoder`: initial states of node copies, from node states and pair encodings.

A node copy is a node as it occurs in one rooted subgraph, that is, a pair of a root and
a node.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.errors import OptionError
from gnnak.nn.copies import lift
from gnnak.nn.segment import lookup
from gnnak.subgraphs.encodings import StructuralEncoding, root_mark, short_distance
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import PAIRS, PairEncoding, check_choice, check_count


class PairEncoder(nn.Module):
    r"""Add learned encodings of (root, node) to node states.

    The state of node $v$ in the subgraph rooted at $u$ becomes

    $$h_{u,v} = x_v + \text{Emb}([u = v]) + \text{Emb}(\min(d(u, v), D))
        + W P_{uv} + w R_{uv}$$

    with one term for each name in `pairs`: "mark" (is the node the root?), "distance"
    (shortest path), "rrwp" (random walk probabilities, see `rrwp`) and "resistance"
    (see `resistance`). $W$ and $w$ are Linears without bias.

    Args:
        pairs: Names of the encodings; empty = $h_{u,v} = x_v$.
        channels: Width of the states.
        max_distance: Largest distance $D$ with an embedding of its own; larger and
            unknown distances share the embedding of $D$.
        num_steps: Number of steps of the random walks.
    """

    def __init__(
        self,
        pairs: Sequence[PairEncoding],
        channels: int,
        max_distance: int = 5,
        num_steps: int = 20,
    ) -> None:
        super().__init__()
        for name in pairs:
            check_choice("a pair encoding", name, PAIRS)
        if len(set(pairs)) != len(pairs):
            raise OptionError(f"pairs is {tuple(pairs)!r}; name each encoding once.")
        self.max_distance = check_count("max_distance", max_distance, least=1)
        self.num_steps = check_count("num_steps", num_steps, least=1)
        self.pairs = tuple(pairs)
        parts = {
            "mark": lambda: nn.Embedding(2, channels),
            "distance": lambda: nn.Embedding(max_distance + 1, channels),
            "rrwp": lambda: nn.Linear(num_steps + 1, channels, bias=False),
            "resistance": lambda: nn.Linear(1, channels, bias=False),
        }
        self.parts = nn.ModuleDict({name: parts[name]() for name in pairs})

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return the initial states of all node copies, [m, c].

        Args:
            x: Node states, [n, c].
            subgraphs: The rooted subgraphs.
            edge_index: Directed edges, [2, e].
            batch: Index of the graph that each node is in, [n]; None = all nodes are
                in one graph.
        """
        h = lift(x, subgraphs)
        structural = {encoding.name: encoding for encoding in self.encodings}
        for name, part in self.parts.items():
            if name in structural:
                rows = structural[name](subgraphs, edge_index, batch)
                rows = rows if rows.dim() == 2 else rows[:, None]
                h = h + part(rows.to(x.dtype))
            else:
                index = self._category(name, subgraphs)
                h = h + lookup(part.get_parameter("weight"), index)
        return h

    def _category(self, name: str, subgraphs: RootedSubgraphs) -> Tensor:
        """Return the row of the table `name` for each node copy, [m]."""
        if name == "mark":
            return root_mark(subgraphs)
        return short_distance(subgraphs, self.max_distance)

    @property
    def encodings(self) -> tuple[StructuralEncoding, ...]:
        """The structural encodings among `pairs`.

        If the subgraphs do not have them (see `WithEncodings`), the forward pass
        computes them, which synchronises with a GPU.
        """
        known = {
            "rrwp": StructuralEncoding("rrwp", self.num_steps),
            "resistance": StructuralEncoding("resistance"),
        }
        return tuple(known[name] for name in self.pairs if name in known)

    def extra_repr(self) -> str:
        """Return the options of the encoder, as text for `repr`."""
        return f"pairs={self.pairs}, max_distance={self.max_distance}"
