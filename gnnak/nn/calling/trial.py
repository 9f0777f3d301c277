"""Trial runs of a GNN: how wide its states are, which edge arguments it reads."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnnak.errors import EdgeAttrError, WidthError
from gnnak.nn.calling.widths import edge_widths

MAX_COLUMNS = 4
"""Integer edge attributes are tried with up to so many columns."""


class Outcome(NamedTuple):
    """What came out of the calls of one GNN that succeeded."""

    out_channels: int
    """Width of the states."""
    edge_arguments: tuple[str, ...]
    """The edge arguments that it reads."""
    needs_edges: bool
    """Whether it runs with edge arguments only."""


class Trial:
    """Calls of one GNN on the path 0 - 1 - 2, its edges sorted by target.

    Args:
        gnn: The GNN to call.
        in_channels: Width of the node states.
        takes_batch: Whether it is handed the graph of each node.
    """

    def __init__(self, gnn: nn.Module, in_channels: int, takes_batch: bool) -> None:
        self.gnn, self.in_channels, self.takes_batch = gnn, in_channels, takes_batch
        like = next((p for p in gnn.parameters() if p.is_floating_point()), None)
        dtype = torch.get_default_dtype() if like is None else like.dtype
        device = None if like is None else like.device
        self.x = torch.zeros(3, in_channels, dtype=dtype, device=device)
        self.edge_index = torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]], device=device)
        batch = self.x.new_zeros(3, dtype=torch.long)
        self.options = {"batch": batch} if takes_batch else {}
        self.failure: Exception | None = None

    def run(self, edge_arguments: Mapping[str, bool]) -> Outcome | None:
        """Call the GNN without edge arguments, and with each of them.

        Args:
            edge_arguments: The edge arguments it may take, and whether its signature
                names them. A GNN that fails for every value of an argument it names
                does something with it: it reads it.

        Returns:
            What came out; None if every call fails, and `failure` says why.
        """
        out = self._call({})
        widths = [None if out is None else out.size(1)]
        reads = []
        for argument, named in edge_arguments.items():
            width, reads_it = self._run_with_edges(argument, named)
            widths.append(width)
            reads += [argument] if reads_it else []
        width = next((width for width in widths if width), None)
        if width is None:
            return None
        return Outcome(width, tuple(reads), needs_edges=out is None)

    def _run_with_edges(self, argument: str, named: bool) -> tuple[int | None, bool]:
        """The width that comes out, and whether the edge argument is read."""
        for position, edges in enumerate(self._edges(argument)):
            with torch.enable_grad():
                out = self._call({argument: edges}, report=position == 0)
                if isinstance(self.failure, EdgeAttrError) and out is None:
                    return None, False
                if out is None:
                    continue
                if not edges.is_floating_point():
                    return out.size(1), True
                if not out.requires_grad:
                    return out.size(1), False
                (grad,) = torch.autograd.grad(out.sum(), [edges], allow_unused=True)
            return out.size(1), grad is not None
        return None, named

    def _edges(self, argument: str) -> Iterator[Tensor]:
        """Values to try: states of any likely width, weights, at last categories."""
        if argument == "edge_attr":
            for width in edge_widths(self.gnn, self.in_channels):
                yield self.x.new_ones(4, width).requires_grad_()
        yield self.x.new_ones(4).requires_grad_()
        if argument == "edge_attr":
            yield self.x.new_zeros(4, dtype=torch.long)
            for columns in range(1, MAX_COLUMNS + 1):
                yield self.x.new_zeros(4, columns, dtype=torch.long)

    def _call(self, edges: dict[str, Tensor], report: bool = True) -> Tensor | None:
        try:
            out = self.gnn(self.x, self.edge_index, **self.options, **edges)
        except Exception as failure:
            # Any failure means "not callable like this". The last one to report is
            # told, but what is wrong with the output of a call that did succeed first.
            if report and not isinstance(self.failure, WidthError):
                self.failure = failure
            return None
        if not isinstance(out, Tensor) or out.dim() != 2 or out.size(0) != 3:
            self.failure = WidthError(f"it returns {_shown(out)}, not states [3, c]")
            return None
        return out


def _shown(out: object) -> str:
    if isinstance(out, Tensor):
        return f"a tensor of shape {list(out.shape)}"
    return f"a {type(out).__name__}"


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; modes and random state come back after.

    Only weights of lazy modules, which are drawn in their first call, move the random
    state: two such modules must not get the same weights.
    """
    training = {part: part.training for part in module.modules()}
    lazy = any(is_lazy(weight) for weight in module.parameters())
    devices = {weight.device for weight in module.parameters() if weight.is_cuda}
    module.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(list(devices), enabled=not lazy):
            yield
    finally:
        for part, mode in training.items():
            part.training = mode
