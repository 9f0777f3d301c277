"""Trial runs of a GNN: how wide its states are, which edge arguments it reads."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnnak.errors import EdgeAttrError, WidthError

WIDTH_NAMES = (
    "edge_dim",
    "edge_channels",
    "in_edge_channels",
    "in_channels",
    "in_features",
    "dim",
)
"""Attributes of a module that may tell the width of its edge attributes."""


class Trial:
    """Calls of one GNN on the path 0 - 1 - 2.

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
        self.edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]], device=device)
        batch = self.x.new_zeros(3, dtype=torch.long)
        self.options = {"batch": batch} if takes_batch else {}
        self.failure: Exception | None = None

    def run(self, edge_arguments: Sequence[str]) -> tuple[int | None, tuple[str, ...]]:
        """Call the GNN without edge arguments, and with each of them.

        Returns:
            The width of the states that come out, None if every call fails, and those
            of `edge_arguments` that the GNN reads.
        """
        out = self._call()
        widths = [None if out is None else out.size(1)]
        reads = []
        for argument in edge_arguments:
            width, reads_it = self._run_with_edges(argument)
            widths.append(width)
            reads += [argument] if reads_it else []
        return next((width for width in widths if width), None), tuple(reads)

    def _run_with_edges(self, argument: str) -> tuple[int | None, bool]:
        """The width that comes out, and whether the edge argument is read.

        A GNN that fails for every width tried does something with it: it reads it,
        unless it fails because it refuses edge attributes.
        """
        for width in self._edge_widths(argument):
            shape = (4,) if width is None else (4, width)
            edges = self.x.new_ones(shape).requires_grad_()
            with torch.enable_grad():
                out = self._call(**{argument: edges})
                if out is None:
                    continue
                if not out.requires_grad:
                    return out.size(1), False
                (grad,) = torch.autograd.grad(out.sum(), [edges], allow_unused=True)
            return out.size(1), grad is not None
        return None, not isinstance(self.failure, EdgeAttrError)

    def _edge_widths(self, argument: str) -> list[int | None]:
        if argument == "edge_weight":
            return [None]
        widths = {self.in_channels: None, 1: None}
        for module in self.gnn.modules():
            for name in WIDTH_NAMES:
                width = getattr(module, name, None)
                if isinstance(width, int):
                    # Often edge attributes stand beside one end's state, or both.
                    for ends in range(3):
                        widths[width - ends * self.in_channels] = None
        return [width for width in widths if width > 0]

    def _call(self, **edges: Tensor) -> Tensor | None:
        try:
            out = self.gnn(self.x, self.edge_index, **self.options, **edges)
        except Exception as failure:
            # Any failure means "not callable like this". The last one is reported, but
            # what is wrong with the output of a call that did succeed comes first.
            if not isinstance(self.failure, WidthError):
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
