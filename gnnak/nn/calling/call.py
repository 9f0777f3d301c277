"""How any GNN is called: which arguments it reads, how wide it is.

A base GNN is whatever maps (x, edge_index[, edge_attr or edge_weight][, batch]) to
node states. Signatures say what it accepts; a trial run on a three-node path says what
it returns and whether it reads the edge attributes that it accepts (several PyG convs
accept and ignore them).
"""

from dataclasses import dataclass

from torch import Tensor, nn

from gnnak.errors import EdgeAttrError, WidthError
from gnnak.nn.calling.signature import (
    argument_names,
    check_callable,
    edge_arguments,
    further_arguments,
)
from gnnak.nn.calling.trial import Outcome, Trial, undisturbed
from gnnak.nn.calling.widths import node_widths


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
    needs_edges: bool
    """Whether it cannot do without edge attributes."""

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
        """Run `gnn` with the arguments it reads, as they are."""
        options: dict[str, Tensor | None] = {}
        if edge_attr is not None:
            options[self.edge_argument(edge_attr)] = edge_attr
        elif self.needs_edges:
            raise EdgeAttrError(
                f"{self.name} needs edge attributes, but got none; pass edge_attr, or "
                "use a GNN that does without them (GINConv for GINEConv)."
            )
        if self.takes_batch:
            options["batch"] = batch
        return gnn(x, edge_index, **options)


def try_out(gnn: nn.Module, in_channels: int, made_of: str) -> Calling:
    """Run `gnn` on a small graph of the given width and note how it is called.

    A lazy module gets its weights in the trial, of the width it will be used at.

    Args:
        gnn: The module to try; its weights, statistics and mode stay as they are.
        in_channels: Width of the node states it will get.
        made_of: Where that width comes from, for the error message.
    """
    check_callable(gnn)
    with undisturbed(gnn):
        trial = _trial(gnn, in_channels)
        outcome = trial.run(edge_arguments(gnn))
        if outcome is None:
            raise _width_error(trial, made_of)
    name, takes_batch = type(gnn).__name__, trial.takes_batch
    return Calling(
        name,
        outcome.out_channels,
        outcome.edge_arguments,
        takes_batch,
        outcome.needs_edges,
    )


def own_widths(gnn: nn.Module) -> tuple[int, int] | None:
    """The first input width by what `gnn` declares that it runs at, and the output's.

    Half a declared width is tried last, for convs that begin with a Linear over both
    ends of an edge, such as EdgeConv; not for those that need edge attributes, which
    may make up the other half.
    """
    check_callable(gnn)
    declared = node_widths(gnn)
    with undisturbed(gnn):
        for width in declared:
            outcome = _run(gnn, width)
            if outcome is not None:
                return width, outcome.out_channels
        for half in [width // 2 for width in declared if width % 2 == 0]:
            outcome = _run(gnn, half)
            if outcome is not None and not outcome.needs_edges:
                return half, outcome.out_channels
    return None


def _trial(gnn: nn.Module, in_channels: int) -> Trial:
    return Trial(gnn, in_channels, takes_batch="batch" in argument_names(gnn))


def _run(gnn: nn.Module, in_channels: int) -> Outcome | None:
    return _trial(gnn, in_channels).run(edge_arguments(gnn))


def _width_error(trial: Trial, made_of: str) -> WidthError:
    """Say what is wrong: its own width, if the GNN runs with that one."""
    gnn, width = trial.gnn, trial.in_channels
    name, own = type(gnn).__name__, own_widths(gnn)
    if own is not None and own[0] != width:
        return WidthError(
            f"the base GNN {name} takes width {own[0]}, but gets {width} "
            f"({made_of}); build it with {width} input channels."
        )
    arguments = ["x", "edge_index", *edge_arguments(gnn)]
    return WidthError(
        f"the base GNN {name} failed on a three-node path of width {width} "
        f"({made_of}), called as gnn({', '.join(arguments)}): {_reason(trial)}"
    )


def _reason(trial: Trial) -> str:
    """The first line of the failure; where it has none, what may have been missing."""
    lines = str(trial.failure).strip().splitlines()
    if lines:
        return lines[0]
    reason, further = type(trial.failure).__name__, further_arguments(trial.gnn, False)
    if not further:
        return reason
    return f"{reason} (it is not given {', '.join(further)}, which it takes too)"
