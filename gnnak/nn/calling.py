"""How any GNN is called: which arguments it reads, how wide it is.

A base GNN is whatever maps (x, edge_index[, edge_attr or edge_weight][, batch]) to
node states. Signatures say what it accepts; a trial run on a three-node path says what
it returns and whether it reads the edge attributes that it accepts (several PyG convs
accept and ignore them).
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnnak.errors import EdgeAttrError, WidthError

EDGE_ARGUMENTS = ("edge_attr", "edge_weight")


@dataclass(frozen=True)
class Calling:
    """How one GNN is called."""

    name: str
    """Its class, for messages."""
    out_channels: int
    """Width of the states it returns."""
    edge_arguments: tuple[str, ...]
    """Which of `EDGE_ARGUMENTS` it reads."""
    takes_batch: bool
    """Whether it wants to know which subgraph, or graph, each node is in."""

    def edge_argument(self, edge_attr: Tensor) -> str:
        """The argument that `edge_attr` goes to; an error if the GNN reads none."""
        if edge_attr.dim() == 1 and "edge_weight" in self.edge_arguments:
            return "edge_weight"
        if "edge_attr" in self.edge_arguments:
            return "edge_attr"
        if "edge_weight" in self.edge_arguments:
            shape = list(edge_attr.shape)
            raise EdgeAttrError(
                f"{self.name} reads one weight per edge, but edge_attr has shape "
                f"{shape}; pass weights of shape [e], or none."
            )
        raise EdgeAttrError(
            f"{self.name} does not read edge attributes and would drop them silently; "
            "pass edge_attr=None, or use a GNN that reads them (GINEConv; GATConv and "
            "others with edge_dim=)."
        )

    def __call__(
        self,
        gnn: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor | None,
    ) -> Tensor:
        """Run `gnn` with the arguments it reads."""
        options: dict[str, Tensor | None] = {}
        if edge_attr is not None:
            options[self.edge_argument(edge_attr)] = edge_attr
        if self.takes_batch:
            options["batch"] = batch
        return gnn(x, edge_index, **options)


def argument_names(module: nn.Module) -> tuple[str, ...]:
    """The names of the arguments of `module.forward`, those of PyG's Sequential too."""
    described = getattr(getattr(module, "signature", None), "param_dict", None)
    if described is not None:
        return tuple(described)
    return tuple(inspect.signature(module.forward).parameters)


def try_out(gnn: nn.Module, in_channels: int, made_of: str) -> Calling:
    """Run `gnn` on a small graph of the given width and note how it is called.

    Args:
        gnn: The module to try; its weights, statistics and mode stay as they are.
        in_channels: Width of the node states it will get.
        made_of: Where that width comes from, for the error message.
    """
    names = argument_names(gnn)
    name, takes_batch = type(gnn).__name__, "batch" in names
    accepted = [name for name in EDGE_ARGUMENTS if name in names]
    trial = _Trial(gnn, in_channels, takes_batch)
    with _undisturbed(gnn):
        plain = trial.run()
        read = {edge: trial.run_with_edges(edge) for edge in accepted}
    width = plain or next((w for w, _ in read.values() if w), None)
    if width is None:
        raise _width_error(gnn, in_channels, made_of, trial.failure)
    reads = tuple(edge for edge, (_, reads_it) in read.items() if reads_it)
    return Calling(name, width, reads, takes_batch)


class _Trial:
    """Calls of one GNN on the path 0 - 1 - 2."""

    def __init__(self, gnn: nn.Module, in_channels: int, takes_batch: bool) -> None:
        self.gnn = gnn
        like = next((p for p in gnn.parameters() if p.is_floating_point()), None)
        dtype = torch.get_default_dtype() if like is None else like.dtype
        device = None if like is None else like.device
        self.x = torch.zeros(3, in_channels, dtype=dtype, device=device)
        self.edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]], device=device)
        batch = self.x.new_zeros(3, dtype=torch.long)
        self.options = {"batch": batch} if takes_batch else {}
        self.failure: Exception | None = None

    def run(self, **edges: Tensor) -> int | None:
        """The width of the states that come out, or None if the call fails."""
        out = self._call(**edges)
        return None if out is None else out.size(1)

    def run_with_edges(self, argument: str) -> tuple[int | None, bool]:
        """The width that comes out, and whether the edge argument is read.

        A GNN that fails for every width tried does something with it: it reads it.
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
        return None, True

    def _edge_widths(self, argument: str) -> list[int | None]:
        if argument == "edge_weight":
            return [None]
        widths = {self.x.size(1): None, 1: None}
        for module in self.gnn.modules():
            for name in ("edge_dim", "in_channels", "in_features", "in_edge_channels"):
                width = getattr(module, name, None)
                if isinstance(width, int) and width > 0:
                    widths[width] = None
        return list(widths)

    def _call(self, **edges: Tensor) -> Tensor | None:
        try:
            out = self.gnn(self.x, self.edge_index, **self.options, **edges)
        except Exception as failure:
            # Any failure means "not callable like this"; the last one is reported.
            self.failure = failure
            return None
        if not isinstance(out, Tensor) or out.dim() != 2 or out.size(0) != 3:
            self.failure = WidthError("it does not return one [n, c] tensor of states")
            return None
        return out


@contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; modes and random state come back after."""
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        for part, mode in training.items():
            part.training = mode


def declared_width(module: nn.Module) -> int | None:
    """The input width a GNN declares: its own, else that of its first Linear."""
    for part in module.modules():
        for name in ("in_channels", "in_features"):
            width = getattr(part, name, None)
            if isinstance(width, tuple) and width and width[0] == width[-1]:
                width = width[0]
            if isinstance(width, int) and width > 0:
                return width
    return None


def _width_error(
    gnn: nn.Module, in_channels: int, made_of: str, failure: Exception | None
) -> WidthError:
    name, declared = type(gnn).__name__, declared_width(gnn)
    if declared is not None and declared != in_channels:
        return WidthError(
            f"the base GNN {name} takes width {declared}, but gets {in_channels} "
            f"({made_of}); build it with {in_channels} input channels."
        )
    reason = str(failure).strip().splitlines() or [type(failure).__name__]
    return WidthError(
        f"the base GNN {name} failed on a three-node path of width {in_channels} "
        f"({made_of}): {reason[0]}"
    )
