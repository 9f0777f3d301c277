"""Find out which arguments a GNN reads, and how wide its input and output are.

A base GNN is any module that maps (x, edge_index[, edge_attr or edge_weight][, batch])
to node states; further arguments, such as `edge_type` or `pos`, are told by their
names. The signature of the GNN shows which arguments it accepts. A trial run on a
three-node path shows the width of its output, and whether it reads the edge attributes
that it accepts: several PyG convs accept edge attributes but ignore them.
"""

from torch import nn

from gnnak.errors import WidthError
from gnnak.nn.calling.call import Calling
from gnnak.nn.calling.examples import example_arguments, unknown_arguments
from gnnak.nn.calling.signature import (
    argument_names,
    check_callable,
    edge_arguments,
    further_arguments,
)
from gnnak.nn.calling.trial import Outcome, Trial, trial_mode
from gnnak.nn.calling.widths import node_widths


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
        trial, outcome = _run(gnn, in_channels)
        if outcome is None:
            raise _width_error(trial, gnn, in_channels, origin)
    assert trial is not None
    return Calling(
        type(gnn).__name__,
        outcome.out_channels,
        outcome.edge_arguments,
        trial.takes_batch,
        outcome.needs_edges,
        tuple(name for name in trial.options if name != "batch"),
        outcome.returns_tuple,
        trial.keywords,
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
            _, outcome = _run(gnn, width)
            if outcome is not None:
                return width, outcome.out_channels
        for half in [width // 2 for width in declared if width % 2 == 0]:
            _, outcome = _run(gnn, half)
            if outcome is not None and not outcome.needs_edges:
                return half, outcome.out_channels
    return None


def _run(gnn: nn.Module, in_channels: int) -> tuple[Trial | None, Outcome | None]:
    """Run `gnn` with node states of width `in_channels` and with example arguments.

    Returns:
        The `Trial` that succeeded and its outcome. If all calls fail, the first `Trial`
        and None; if an argument of `gnn` is unknown, None and None.
    """
    takes_batch = "batch" in argument_names(gnn)
    first: Trial | None = None
    for further in example_arguments(gnn, in_channels):
        trial = Trial(gnn, in_channels, takes_batch, further)
        arguments = edge_arguments(gnn)
        if "edge_weight" in further:
            del arguments["edge_weight"]
        outcome = trial.run(arguments)
        if outcome is not None:
            return trial, outcome
        first = first or trial
    return first, None


def _width_error(
    trial: Trial | None, gnn: nn.Module, width: int, origin: str
) -> WidthError:
    """Return the error to raise for a GNN whose trial calls have all failed.

    The message explains the input width of the calls by `origin`. If the GNN works with
    another width, the message names that width.
    """
    name, own = type(gnn).__name__, own_widths(gnn)
    if trial is None:
        unknown = ", ".join(unknown_arguments(gnn))
        return WidthError(
            f"{name} needs {unknown} in addition to x and edge_index, and the name "
            "does not tell whether this has a row per node or per edge; say so with "
            "gnnak.nn.Call, in uplift(model, call={...})."
        )
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
    not_passed = further_arguments(trial.gnn)
    if not not_passed:
        return reason
    return f"{reason} (it also takes {', '.join(not_passed)}, which it was not given)"
