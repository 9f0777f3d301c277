"""Find out which arguments a GNN reads, and how wide its input and output are.

A base GNN is any module that maps (x, edge_index[, edge_attr or edge_weight][, batch])
to node states. Its signature shows which arguments it accepts. A trial run on a
three-node path shows the width of its output, and whether it reads the edge attributes
that it accepts: several PyG convs accept edge attributes but ignore them.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from gnnak.errors import EdgeAttrError, WidthError
from gnnak.nn.calling.signature import (
    argument_names,
    check_callable,
    edge_arguments,
    unsupported_arguments,
)
from gnnak.nn.calling.trial import Outcome, Trial, trial_mode
from gnnak.nn.calling.widths import node_widths


@dataclass(frozen=True)
class Calling:
    """The arguments that one GNN reads, and the width of its output.

    Call this object with the GNN and all arguments. It passes on only the arguments
    that the GNN reads.
    """

    name: str
    """Class name of the GNN, for error messages."""
    out_channels: int
    """Width of the node states that the GNN returns."""
    edge_arguments: tuple[str, ...]
    """Which of the arguments `edge_attr` and `edge_weight` the GNN reads."""
    takes_batch: bool
    """Whether the GNN has an argument `batch`, the index of each node's graph."""
    needs_edges: bool
    """Whether the GNN fails if it is called without edge attributes."""

    def edge_argument(self, edge_attr: Tensor) -> str:
        """Return the name of the GNN's argument that takes these edge attributes.

        Args:
            edge_attr: Edge states, [e, c], or weights, [e].

        Returns:
            "edge_attr" or "edge_weight".

        Raises:
            EdgeAttrError: If the GNN reads no edge attributes of this shape.
        """
        if edge_attr.dim() == 1 and "edge_weight" in self.edge_arguments:
            return "edge_weight"
        if "edge_attr" in self.edge_arguments:
            return "edge_attr"
        if "edge_weight" in self.edge_arguments:
            shape = list(edge_attr.shape)
            raise EdgeAttrError(
                f"{self.name} reads one weight per edge, but edge_attr has shape "
                f"{shape}; pass weights of shape [e], or edge_attr=None."
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
        """Call `gnn` with the arguments that it reads.

        Args:
            gnn: The GNN that this object describes.
            x: Node states, [n, c].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge states [e, c] or weights [e]; None if there are none.
            batch: Index of the graph or rooted subgraph that each node is in, [n];
                passed on only if the GNN has an argument `batch`.

        Returns:
            New node states, [n, out_channels].

        Raises:
            EdgeAttrError: If `edge_attr` is None but the GNN needs edge attributes, or
                if the GNN reads no edge attributes of the given shape.
        """
        options: dict[str, Tensor | None] = {}
        if edge_attr is not None:
            options[self.edge_argument(edge_attr)] = edge_attr
        elif self.needs_edges:
            raise EdgeAttrError(
                f"{self.name} needs edge attributes, but got none; pass edge_attr, or "
                "use a GNN that does not need them (GINConv instead of GINEConv)."
            )
        if self.takes_batch:
            options["batch"] = batch
        return gnn(x, edge_index, **options)


def try_out(gnn: nn.Module, in_channels: int, origin: str) -> Calling:
    """Run `gnn` on a small graph to find the arguments it reads and its output width.

    The run leaves weights, running statistics and training mode of `gnn` unchanged,
    but lazy modules initialise their weights, for the input width `in_channels`.

    Args:
        gnn: The module to try.
        in_channels: Width of the node states that `gnn` will get.
        origin: Explanation of `in_channels` for error messages, such as
            "in_channels 8 + hop_channels 16".

    Raises:
        OptionError: If `gnn` cannot be a base GNN; see `check_callable`.
        WidthError: If no call of `gnn` succeeds and returns node states.
    """
    check_callable(gnn)
    with trial_mode(gnn):
        trial = _trial(gnn, in_channels)
        outcome = trial.run(edge_arguments(gnn))
        if outcome is None:
            raise _width_error(trial, origin)
    name, takes_batch = type(gnn).__name__, trial.takes_batch
    return Calling(
        name,
        outcome.out_channels,
        outcome.edge_arguments,
        takes_batch,
        outcome.needs_edges,
    )


def own_widths(gnn: nn.Module) -> tuple[int, int] | None:
    """Return the input and output width of `gnn`; None if they cannot be found.

    The attributes of the GNN and its submodules declare possible input widths. Try them
    one after the other on a small graph until a run succeeds. If all runs fail, try
    half of each even width: the first Linear of a conv like EdgeConv takes the
    concatenated states of two nodes. A half width is not accepted for a GNN that needs
    edge attributes.
    """
    check_callable(gnn)
    declared = node_widths(gnn)
    with trial_mode(gnn):
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
    """Build the `Trial` that calls `gnn` with node states of width `in_channels`."""
    return Trial(gnn, in_channels, takes_batch="batch" in argument_names(gnn))


def _run(gnn: nn.Module, in_channels: int) -> Outcome | None:
    """Run `gnn` with node states of width `in_channels`; None if all calls fail."""
    return _trial(gnn, in_channels).run(edge_arguments(gnn))


def _width_error(trial: Trial, origin: str) -> WidthError:
    """Return the error to raise for a GNN whose trial calls have all failed.

    The message explains the input width of the calls by `origin`. If the GNN works with
    another width, the message names that width.
    """
    gnn, width = trial.gnn, trial.in_channels
    name, own = type(gnn).__name__, own_widths(gnn)
    if own is not None and own[0] != width:
        return WidthError(
            f"the base GNN {name} takes width {own[0]}, but gets {width} "
            f"({origin}); build it with {width} input channels."
        )
    arguments = ["x", "edge_index", *edge_arguments(gnn)]
    return WidthError(
        f"the base GNN {name} failed on a three-node path of width {width} "
        f"({origin}), called as gnn({', '.join(arguments)}): {_reason(trial)}"
    )


def _reason(trial: Trial) -> str:
    """Return one line for an error message: why all trial calls of a GNN failed."""
    lines = str(trial.failure).strip().splitlines()
    if lines:
        return lines[0]
    reason = type(trial.failure).__name__
    not_passed = unsupported_arguments(trial.gnn, required=False)
    if not not_passed:
        return reason
    return f"{reason} (it also takes {', '.join(not_passed)}, which it was not given)"
