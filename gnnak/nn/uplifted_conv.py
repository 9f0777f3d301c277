"""`UpliftedConv`: a GNN-AK layer that is called like the PyG conv inside it."""

import torch
from torch import Tensor, nn

from gnnak.errors import GraphError, OptionError
from gnnak.nn.calling.signature import EDGE_ARGUMENTS, argument_names
from gnnak.nn.checks import check_states
from gnnak.nn.finite import is_finite, warn_not_finite
from gnnak.nn.uplift import GNNAK
from gnnak.sampling.shared import SharedSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs


class UpliftedConv(nn.Module):
    """A `GNNAK` layer that takes the same arguments as its base GNN, a PyG conv.

    `uplift` replaces each conv of a model by such a layer.

    Args:
        layer: The layer, with the conv as its base GNN.
        shared: Extracts the subgraphs once per forward pass, for all layers of a model.
    """

    warned = False
    """Whether this layer has warned of inputs that are NaN or infinite."""

    def __init__(self, layer: GNNAK, shared: SharedSubgraphs) -> None:
        super().__init__()
        self.layer = layer
        self.shared = shared
        self.arguments = argument_names(layer.gnn)

    @property
    def in_channels(self) -> int:
        """Width of the input node states."""
        return self.layer.in_channels

    @property
    def out_channels(self) -> int:
        """Width of the output node states."""
        return self.layer.out_channels

    def forward(
        self, x: Tensor, edge_index: Tensor, *args: object, **options: object
    ) -> Tensor:
        """Compute new node states, [n, out_channels].

        Besides `x` and `edge_index`, the layer takes `edge_attr` or `edge_weight` if
        the conv reads this argument. `batch` and `batch_size` are accepted and ignored.
        Any other argument raises an error.

        Args:
            x: Node states, [n, in_channels].
            edge_index: Directed edges, [2, e].
            args: Further positional arguments, in the order of the conv's signature.
            options: Further keyword arguments.
        """
        _check_tensors(x, edge_index)
        check_states(x, self.in_channels)
        edge_attr = self._edge_attr(args, options)
        if torch.compiler.is_compiling() and self.shared.compiled is not None:
            subgraphs = self.shared.compiled
        else:
            subgraphs = self._subgraphs(x, edge_index, edge_attr)
        return self.layer(x, subgraphs, edge_attr)

    @torch.compiler.disable
    def _subgraphs(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None
    ) -> RootedSubgraphs:
        """Return the rooted subgraphs, which all layers share in a forward pass.

        The first layer of a forward pass warns of inputs that are NaN or infinite. The
        inputs of a padded batch are not checked, since the check synchronises.
        """
        first = self.shared.enter(self)
        subgraphs = self.shared.get(edge_index, x.size(0), self.training)
        if first and not self.warned and subgraphs.real is None:
            for name, values in (("x", x), ("edge_attr", edge_attr)):
                if isinstance(values, Tensor) and not is_finite(values):
                    self.warned = True
                    warn_not_finite(f"the input {name} of the model", values)
        return subgraphs

    def _edge_attr(
        self, args: tuple[object, ...], options: dict[str, object]
    ) -> Tensor | None:
        """Return the value of `edge_attr` or `edge_weight`; None if neither is given.

        Raises:
            OptionError: If both are given, or if another argument than `batch` and
                `batch_size` is given.
        """
        named = dict(zip(self.arguments[2:], args, strict=False)) | options
        named.pop("batch", None)
        named.pop("batch_size", None)
        given = {name: value for name, value in named.items() if value is not None}
        known = [name for name in given if name in EDGE_ARGUMENTS]
        if len(given) != len(known) or len(known) > 1:
            raise OptionError(
                f"an uplifted {self.layer.calling.name} takes edge_attr or edge_weight "
                f"in addition to x and edge_index, but got {', '.join(given)}."
            )
        return given[known[0]] if known else None  # type: ignore[return-value]

    def reset_parameters(self) -> None:
        """Initialise all weights of the layer, including those of the conv."""
        for module in self.layer.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self.layer and callable(reset):
                reset()


def _check_tensors(x: Tensor, edge_index: Tensor) -> None:
    """Raise `GraphError` unless both are dense tensors on one device."""
    for name, value in (("x", x), ("edge_index", edge_index)):
        if not isinstance(value, Tensor) or value.layout != torch.strided:
            sparse = isinstance(value, Tensor)
            kind = f"{value.layout} tensor" if sparse else type(value).__name__
            raise GraphError(
                f"{name} is a {kind}; an uplifted conv takes one tensor of node states "
                "and one edge_index tensor [2, e]."
            )
    if x.device != edge_index.device:
        raise GraphError(
            f"x is on {x.device}, but edge_index is on {edge_index.device}; move both "
            "to one device."
        )
