"""How any GNN is called: which arguments it reads, how wide it is.

A base GNN is whatever maps (x, edge_index[, edge_attr or edge_weight][, batch]) to
node states. Signatures say what it accepts; a trial run on a three-node path says what
it returns and whether it reads the edge attributes that it accepts (several PyG convs
accept and ignore them).
"""

import inspect
from dataclasses import dataclass

from torch import Tensor, nn

from gnnak.errors import EdgeAttrError, OptionError, WidthError
from gnnak.nn.trial import Trial, undisturbed

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
        """Run `gnn` with the arguments it reads; weights [e] as `edge_attr` [e, 1]."""
        options: dict[str, Tensor | None] = {}
        if edge_attr is not None:
            argument = self.edge_argument(edge_attr)
            if argument == "edge_attr" and edge_attr.dim() == 1:
                edge_attr = edge_attr[:, None]
            options[argument] = edge_attr
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

    A lazy module gets its weights in the trial, of the width it will be used at.

    Args:
        gnn: The module to try; its weights, statistics and mode stay as they are.
        in_channels: Width of the node states it will get.
        made_of: Where that width comes from, for the error message.
    """
    name, names = type(gnn).__name__, argument_names(gnn)
    _check_not_cached(gnn)
    takes_batch = "batch" in names
    accepted = [edge for edge in EDGE_ARGUMENTS if edge in names]
    trial = Trial(gnn, in_channels, takes_batch)
    with undisturbed(gnn):
        width, reads = trial.run(accepted)
        if width is None:
            raise _width_error(trial, accepted, made_of)
    return Calling(name, width, reads, takes_batch)


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


def _check_not_cached(gnn: nn.Module) -> None:
    for part in gnn.modules():
        if getattr(part, "cached", False) is True:
            raise OptionError(
                f"{type(part).__name__} has cached=True and would keep the first graph "
                "it sees for ever; build it with cached=False."
            )


def _width_error(trial: Trial, accepted: list[str], made_of: str) -> WidthError:
    """Say what is wrong: the declared width, if the GNN runs with that one."""
    gnn, width, declared = trial.gnn, trial.in_channels, declared_width(trial.gnn)
    name = type(gnn).__name__
    if declared is not None and declared != width:
        works, _ = Trial(gnn, declared, trial.takes_batch).run(accepted)
        if works is not None:
            return WidthError(
                f"the base GNN {name} takes width {declared}, but gets {width} "
                f"({made_of}); build it with {width} input channels."
            )
    reason = str(trial.failure).strip().splitlines() or [type(trial.failure).__name__]
    return WidthError(
        f"the base GNN {name} failed on a three-node path of width {width} "
        f"({made_of}), called as gnn({', '.join(['x', 'edge_index', *accepted])}): "
        f"{reason[0]}"
    )
