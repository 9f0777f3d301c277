"""`Call`: what the arguments of a module hold, said by the user."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from gnnak.errors import OptionError
from gnnak.nn.calling.call import Calling
from gnnak.nn.calling.signature import EDGE_ARGUMENTS, argument_names
from gnnak.typing import check_count


@dataclass(frozen=True, kw_only=True)
class Call:
    """What the arguments of a module's `forward` hold, for `uplift(model, call=...)`.

    With a `Call`, nothing is guessed from the names of arguments, and no trial run is
    made. The module need not be a PyG conv. Arguments that are not listed are passed
    on unchanged.

    >>> Call(states="h", edges="links", edge=("distance",))
    Call(states='h', edges='links', node=(), edge=('distance',), batch=None, \
in_channels=None, out_channels=None, returns_tuple=False)
    """

    states: str = "x"
    """The argument that takes node states, [n, in_channels]."""
    edges: str = "edge_index"
    """The argument that takes directed edges, [2, e]."""
    node: Sequence[str] = ()
    """Arguments with one row or number per node, such as positions."""
    edge: Sequence[str] = ()
    """Arguments with one row or number per edge, such as edge types."""
    batch: str | None = None
    """The argument that takes the index of each node's graph; None = there is none."""
    in_channels: int | None = None
    """Width of the node states; None = the width of those in the first call."""
    out_channels: int | None = None
    """Width of the module's output; None = as in a run on the graph of the first
    call."""
    returns_tuple: bool = False
    """Whether the module returns a tuple, whose first item are the node states."""

    def __post_init__(self) -> None:
        for name in ("node", "edge"):
            given = getattr(self, name)
            listed = (given,) if isinstance(given, str) else tuple(given)
            object.__setattr__(self, name, listed)
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)

    def check(self, module: nn.Module) -> None:
        """Raise `OptionError` unless the module has all arguments that are named."""
        names = argument_names(module)
        batch = () if self.batch is None else (self.batch,)
        for name in (self.states, self.edges, *self.node, *self.edge, *batch):
            if name not in names:
                raise OptionError(
                    f"the Call of {type(module).__name__} names the argument {name!r}, "
                    f"but its forward takes {', '.join(names)}; name one of these."
                )

    def calling(self, module: nn.Module, out_channels: int) -> Calling:
        """Return how to call a module whose output has the width `out_channels`."""
        return Calling(
            type(module).__name__,
            out_channels,
            edge_arguments=EDGE_ARGUMENTS,
            takes_batch=self.batch is not None,
            needs_edges=False,
            returns_tuple=self.returns_tuple,
            keywords=(self.states, self.edges),
            batch_argument=self.batch or "batch",
        )
