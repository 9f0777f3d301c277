"""Run a GNN on a tiny graph to find its output width and the arguments it reads."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnnak.errors import EdgeAttrError, WidthError, kind_of
from gnnak.nn.calling.call import Calling, edge_kind, first_weight
from gnnak.nn.calling.signature import (
    EDGE_ARGUMENTS,
    POSITION_ARGUMENTS,
    TYPE_ARGUMENTS,
    argument_names,
    arguments_of,
    check_callable,
    edge_arguments,
    edge_widths,
    further_arguments,
    keywords,
    node_widths,
    role_of,
)

DIMENSIONS = (3, 2)
"""Numbers of coordinates to try for positions of nodes."""


def unknown_arguments(gnn: nn.Module) -> list[str]:
    """Return a GNN's required arguments whose names do not tell what they hold."""
    further = further_arguments(gnn)
    return [name for name, needed in further.items() if needed and not role_of(name)]


def example_arguments(gnn: nn.Module, in_channels: int) -> list[dict[str, Tensor]]:
    """Return examples of arguments: first only required ones, then all known ones."""
    if unknown_arguments(gnn):
        return []
    further = further_arguments(gnn)
    needed = [name for name, is_needed in further.items() if is_needed]
    known = [name for name in further if role_of(name) in ("node", "edge")]
    sets: list[dict[str, Tensor]] = []
    for names in dict.fromkeys((tuple(needed), tuple(known))):
        has_positions = any(name in POSITION_ARGUMENTS for name in names)
        for dimensions in DIMENSIONS if has_positions else DIMENSIONS[:1]:
            sets.append(
                {name: _example(name, in_channels, dimensions) for name in names}
            )
    required = {a.name for a in arguments_of(gnn) if a.default is a.empty}
    if required.issuperset(EDGE_ARGUMENTS):
        sets = [{**values, "edge_weight": torch.ones(4)} for values in sets]
    return sets


def _example(name: str, in_channels: int, dimensions: int) -> Tensor:
    rows = 4 if role_of(name) == "edge" else 3
    if name in TYPE_ARGUMENTS:
        return torch.zeros(rows, dtype=torch.long)
    if role_of(name) == "num_nodes":
        return torch.tensor(rows)
    return torch.zeros(rows, dimensions if name in POSITION_ARGUMENTS else in_channels)


MAX_COLUMNS = 4
"""A `Trial` tries integer edge attributes with at most this many columns."""


class Trial:
    """Test calls of one GNN on the path 0 - 1 - 2, with and without edge attributes.

    `further` maps names of other arguments to values. The user's `edge_attr`, [e, ...],
    are tried first. If all calls fail, `failure` is the error to report.
    """

    def __init__(
        self,
        gnn: nn.Module,
        in_channels: int,
        further: Mapping[str, Tensor],
        edge_attr: Tensor | None = None,
    ) -> None:
        self.gnn, self.in_channels, self.edge_attr = gnn, in_channels, edge_attr
        like = first_weight(gnn)
        dtype = torch.get_default_dtype() if like is None else like.dtype
        device = None if like is None else like.device
        self.x = torch.zeros(3, in_channels, dtype=dtype, device=device)
        self.edge_index = torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]], device=device)
        self.takes_batch = "batch" in argument_names(gnn)
        batch = self.x.new_zeros(3, dtype=torch.long)
        self.options = {"batch": batch} if self.takes_batch else {}
        for name, value in further.items():
            real = dtype if value.is_floating_point() else None
            self.options[name] = value.to(device, real)
        self.keywords = keywords(gnn)
        self.returns_tuple = False
        self.edge_width: int | None = None
        self.edge_kinds: dict[str, str] = {}
        self.failure: Exception | None = None

    def run(self) -> Calling | None:
        """Try calls without and with edge arguments; return None if all calls fail."""
        out = self._call({})
        widths = [None if out is None else out.size(1)]
        reads = []
        for argument, named in edge_arguments(self.gnn).items():
            if argument not in self.options:
                width, reads_it = self._run_with_edges(argument, named)
                widths.append(width)
                reads += [argument] if reads_it else []
        width = next((width for width in widths if width), None)
        if width is None:
            return None
        edge_dim = getattr(self.gnn, "edge_dim", None)
        return Calling(
            type(self.gnn).__name__,
            width,
            tuple(reads),
            self.takes_batch,
            needs_edges=out is None,
            further=tuple(name for name in self.options if name != "batch"),
            returns_tuple=self.returns_tuple,
            keywords=self.keywords,
            edge_width=edge_dim if self.edge_width == edge_dim else None,
            edge_kinds=self.edge_kinds,
        )

    def _run_with_edges(self, argument: str, named: bool) -> tuple[int | None, bool]:
        """Return the output's width and whether the GNN reads the edge argument.

        If all fail, return None and `named`: whether the signature has `argument`.
        """
        for position, edges in enumerate(self._edges(argument)):
            with torch.enable_grad():
                out = self._call({argument: edges}, report=position == 0)
                if isinstance(self.failure, EdgeAttrError) and out is None:
                    return None, False
                if out is None:
                    continue
                self.edge_kinds[argument] = edge_kind(edges)
                if not edges.is_floating_point():
                    return out.size(1), True
                if edges.dim() == 2:
                    self.edge_width = edges.size(1)
                if not out.requires_grad:
                    return out.size(1), False
                (grad,) = torch.autograd.grad(out.sum(), [edges], allow_unused=True)
            return out.size(1), grad is not None
        return None, named

    def _edges(self, argument: str) -> Iterator[Tensor]:
        """Yield values of different widths and dtypes to try for one edge argument."""
        if argument == "edge_attr":
            if self.edge_attr is not None:
                yield self._users_edges(self.edge_attr)
            for width in edge_widths(self.gnn, self.in_channels):
                yield self.x.new_ones(4, width).requires_grad_()
        yield self.x.new_ones(4).requires_grad_()
        if argument == "edge_attr":
            yield self.x.new_zeros(4, dtype=torch.long)
            for columns in range(1, MAX_COLUMNS + 1):
                yield self.x.new_zeros(4, columns, dtype=torch.long)

    def _users_edges(self, edge_attr: Tensor) -> Tensor:
        """Return four rows of a user's edge attributes; zeros if there are no rows."""
        rows = edge_attr.new_zeros(4, *edge_attr.shape[1:]).to(self.x.device)
        if len(edge_attr):
            rows.copy_(edge_attr.detach()[torch.arange(4) % len(edge_attr)])
        if rows.is_floating_point():
            rows = rows.to(self.x.dtype).requires_grad_()
        return rows

    def _call(self, edges: dict[str, Tensor], report: bool = True) -> Tensor | None:
        positional: tuple[Tensor, ...] = self.x, self.edge_index
        named = {**self.options, **edges}
        if self.keywords is not None:
            named |= zip(self.keywords, positional, strict=True)
            positional = ()
        try:
            out = self.gnn(*positional, **named)
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
            shown = kind_of(out)
            if isinstance(out, Tensor):
                shown = f"a tensor of shape {list(out.shape)}"
            self.failure = WidthError(f"it returns {shown}, not states [3, c]")
            return None
        self.returns_tuple = is_tuple
        return states


@contextmanager
def trial_mode(module: nn.Module) -> Iterator[None]:
    """Context manager: switch to evaluation mode without gradients, then restore modes.

    The random state is also restored, except for a lazy `module`: restoring it would
    give the next lazy module the same initial weights.
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


def try_out(
    gnn: nn.Module, in_channels: int, origin: str, edge_attr: Tensor | None = None
) -> Calling:
    """Run `gnn` on a small graph to find the arguments it reads and its output width.

    Rows of `edge_attr`, [e, ...], are tried first. `gnn` does not change, except that
    lazy modules initialise weights for `in_channels`. Error messages quote `origin`,
    a text that says where `in_channels` comes from. If no call returns node states,
    `WidthError` is raised.
    """
    check_callable(gnn)
    with trial_mode(gnn):
        trial, calling = _run(gnn, in_channels, edge_attr)
        if calling is None:
            raise _width_error(trial, gnn, in_channels, origin)
    return calling


def own_widths(gnn: nn.Module) -> tuple[int, int] | None:
    """Return the input and output widths of `gnn`; None if no tried width works.

    Declared widths are tried first, then half of each width, since the first Linear of
    convs such as EdgeConv takes two node states.
    """
    check_callable(gnn)
    declared = node_widths(gnn)
    with trial_mode(gnn):
        for width in declared:
            _, calling = _run(gnn, width)
            if calling is not None:
                return width, calling.out_channels
        for half in [width // 2 for width in declared if width % 2 == 0]:
            _, calling = _run(gnn, half)
            if calling is not None and not calling.needs_edges:
                return half, calling.out_channels
    return None


def _run(
    gnn: nn.Module, in_channels: int, edge_attr: Tensor | None = None
) -> tuple[Trial | None, Calling | None]:
    """Return the first successful trial, with its result; else the first and None."""
    first: Trial | None = None
    for further in example_arguments(gnn, in_channels):
        trial = Trial(gnn, in_channels, further, edge_attr)
        calling = trial.run()
        if calling is not None:
            return trial, calling
        first = first or trial
    return first, None


def _width_error(
    trial: Trial | None, gnn: nn.Module, width: int, origin: str
) -> WidthError:
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
    failure = (
        f"the base GNN {name} failed on a three-node path of width {width} "
        f"({origin}), called as gnn({', '.join(arguments)}): {_reason(trial)}"
    )
    if "edge_attr" not in arguments:
        return WidthError(failure)
    return WidthError(
        f"{failure.rstrip('.')}; check that forward passes edge_attr to propagate, if "
        f"message needs it; if edge_attr has another width, store it as the "
        f"attribute edge_dim of {name}, or say what the arguments hold with "
        f"gnnak.nn.Call, in uplift(model, call={{{name}: Call(...)}})."
    )


def _reason(trial: Trial) -> str:
    lines = str(trial.failure).strip().splitlines()
    if lines:
        return lines[0]
    reason = type(trial.failure).__name__
    missing = ", ".join(further_arguments(trial.gnn))
    more = f" (it also takes {missing}, which it was not given)" if missing else ""
    return reason + more
