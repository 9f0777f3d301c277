"""Run a GNN on a tiny graph to find its output width and the arguments it reads."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnnak.errors import EdgeAttrError, WidthError, kind_of
from gnnak.nn.calling.call import Calling
from gnnak.nn.calling.signature import (
    POSITION_ARGUMENTS,
    TYPE_ARGUMENTS,
    argument_names,
    check_callable,
    edge_arguments,
    edge_widths,
    further_arguments,
    keywords,
    needs_both_edge_arguments,
    node_widths,
    role_of,
)

DIMENSIONS = (3, 2)
"""Numbers of coordinates to try for positions of nodes."""


def unknown_arguments(gnn: nn.Module) -> list[str]:
    """Return the required arguments of a GNN whose names do not tell what they hold."""
    further = further_arguments(gnn)
    return [name for name, needed in further.items() if needed and not role_of(name)]


def example_arguments(gnn: nn.Module, in_channels: int) -> list[dict[str, Tensor]]:
    """Return sets of example values for the further arguments of a GNN.

    The first set has the required arguments only; further sets add the optional
    arguments whose names tell what they hold, and other numbers of coordinates. The
    list is empty if the name of a required argument does not tell what it holds.

    Args:
        gnn: The GNN.
        in_channels: Width of the node states, which initial states have, too.

    >>> from torch_geometric.nn import RGCNConv
    >>> example_arguments(RGCNConv(8, 8, num_relations=2), 8)
    [{}, {'edge_type': tensor([0, 0, 0, 0])}]
    """
    if unknown_arguments(gnn):
        return []
    further = further_arguments(gnn)
    needed = [name for name, required in further.items() if required]
    known = [name for name in further if role_of(name) in ("node", "edge")]
    sets: list[dict[str, Tensor]] = []
    for names in dict.fromkeys((tuple(needed), tuple(known))):
        has_positions = any(name in POSITION_ARGUMENTS for name in names)
        for dimensions in DIMENSIONS if has_positions else DIMENSIONS[:1]:
            sets.append(
                {name: _example(name, in_channels, dimensions) for name in names}
            )
    if needs_both_edge_arguments(gnn):
        sets = [{**values, "edge_weight": torch.ones(4)} for values in sets]
    return sets


def _example(name: str, in_channels: int, dimensions: int) -> Tensor:
    """Return an example value for one argument, for a path of three nodes."""
    rows = 4 if role_of(name) == "edge" else 3
    if name in TYPE_ARGUMENTS:
        return torch.zeros(rows, dtype=torch.long)
    if role_of(name) == "num_nodes":
        return torch.tensor(rows)
    return torch.zeros(rows, dimensions if name in POSITION_ARGUMENTS else in_channels)


MAX_COLUMNS = 4
"""A `Trial` tries integer edge attributes with 1 to this number of columns."""


class Outcome(NamedTuple):
    """Result of a `Trial`: what the calls of a GNN have shown about the GNN."""

    out_channels: int
    """Width of the node states that the GNN returns."""
    edge_arguments: tuple[str, ...]
    """Which of the arguments `edge_attr` and `edge_weight` the GNN reads."""
    needs_edges: bool
    """Whether the GNN fails if it is called without edge attributes."""
    returns_tuple: bool
    """Whether the GNN returns a tuple, whose first item are the node states."""


class Trial:
    """Test calls of one GNN on the path 0 - 1 - 2, with and without edge attributes.

    Args:
        gnn: The GNN to call.
        in_channels: Width of the node states.
        takes_batch: Whether to pass `batch`, the index of each node's graph.
        further: Values of further arguments of the GNN, on the CPU, by name.

    Attributes:
        failure: The exception to report if every call fails; None if no call has
            failed yet.
    """

    def __init__(
        self,
        gnn: nn.Module,
        in_channels: int,
        takes_batch: bool,
        further: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.gnn, self.in_channels, self.takes_batch = gnn, in_channels, takes_batch
        like = next((p for p in gnn.parameters() if p.is_floating_point()), None)
        dtype = torch.get_default_dtype() if like is None else like.dtype
        device = None if like is None else like.device
        self.x = torch.zeros(3, in_channels, dtype=dtype, device=device)
        self.edge_index = torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]], device=device)
        batch = self.x.new_zeros(3, dtype=torch.long)
        self.options = {"batch": batch} if takes_batch else {}
        for name, value in (further or {}).items():
            real = dtype if value.is_floating_point() else None
            self.options[name] = value.to(device, real)
        self.keywords = keywords(gnn)
        self.returns_tuple = False
        self.failure: Exception | None = None

    def run(self, edge_arguments: Mapping[str, bool]) -> Outcome | None:
        """Call the GNN without edge attributes, then once with each edge argument.

        Args:
            edge_arguments: Which of `edge_attr` and `edge_weight` the GNN accepts, as
                keys. The value is True if the GNN's signature has this argument, and
                False if only `**kwargs` accepts it.

        Returns:
            The result; None if every call failed. `failure` is then the reason.
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
        needs_edges = out is None
        return Outcome(width, tuple(reads), needs_edges, self.returns_tuple)

    def call_with(
        self, argument: str, shape: Sequence[int], dtype: torch.dtype
    ) -> Tensor | None:
        """Call the GNN with edge attributes that are all 1; None if the call fails.

        Args:
            argument: "edge_attr" or "edge_weight".
            shape: Shape of the attributes of one edge: [c], or [] for one number.
            dtype: Dtype of the attributes.
        """
        return self._call({argument: self.x.new_ones((4, *shape), dtype=dtype)})

    def _run_with_edges(self, argument: str, named: bool) -> tuple[int | None, bool]:
        """Call the GNN with several values of one edge argument until a call succeeds.

        Args:
            argument: "edge_attr" or "edge_weight".
            named: Whether the GNN's signature has this argument; False if only
                `**kwargs` accepts it.

        Returns:
            The width of the GNN's output, or None if every call fails; and whether the
            GNN reads the argument.
        """
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
        """Yield values of different widths and dtypes to try for one edge argument."""
        if argument == "edge_attr":
            for width in edge_widths(self.gnn, self.in_channels):
                yield self.x.new_ones(4, width).requires_grad_()
        yield self.x.new_ones(4).requires_grad_()
        if argument == "edge_attr":
            yield self.x.new_zeros(4, dtype=torch.long)
            for columns in range(1, MAX_COLUMNS + 1):
                yield self.x.new_zeros(4, columns, dtype=torch.long)

    def _call(self, edges: dict[str, Tensor], report: bool = True) -> Tensor | None:
        """Call the GNN with at most one edge argument.

        Args:
            edges: The name and value of the edge argument; empty = none.
            report: Whether to store an exception of the GNN in `failure`.

        Returns:
            The output; None if the GNN raises an exception or returns no node states.
        """
        try:
            out = self._answer({**self.options, **edges})
        except Exception as failure:
            # Any exception means that the GNN cannot be called like this. Store the
            # latest exception, unless an earlier call returned a wrong shape: the error
            # about that shape tells the user more.
            if report and not isinstance(self.failure, WidthError):
                self.failure = failure
            return None
        is_tuple = isinstance(out, tuple | list) and len(out) > 0
        states = out[0] if is_tuple else out
        if not isinstance(states, Tensor) or states.dim() != 2 or states.size(0) != 3:
            self.failure = WidthError(f"it returns {_shown(out)}, not states [3, c]")
            return None
        self.returns_tuple = is_tuple
        return states

    def _answer(self, options: Mapping[str, Tensor]) -> Any:
        """Call the GNN, with states and edges by position or by name."""
        if self.keywords is None:
            return self.gnn(self.x, self.edge_index, **options)
        states, graph = self.keywords
        return self.gnn(**{states: self.x, graph: self.edge_index}, **options)


def _shown(out: object) -> str:
    """Describe the output of a GNN for an error message: its shape or its type."""
    if isinstance(out, Tensor):
        return f"a tensor of shape {list(out.shape)}"
    return kind_of(out)


@contextmanager
def trial_mode(module: nn.Module) -> Iterator[None]:
    """Context manager: put `module` in evaluation mode and switch gradients off.

    On exit, the training mode of every submodule and the random state are restored. The
    random state is not restored if `module` is lazy: its first call draws initial
    weights, and the next lazy module would otherwise draw the same weights.
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
