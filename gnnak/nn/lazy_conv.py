"""`LazyUpliftedConv`: an uplifted conv whose widths are known at its first call."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from gnnak.errors import GraphError, WidthError
from gnnak.nn.calling import Call, Calling, own_widths, try_out
from gnnak.nn.calling.binding import Binding
from gnnak.nn.calling.examples import unknown_arguments
from gnnak.nn.calling.signature import check_callable, further_arguments, keywords
from gnnak.nn.calling.trial import trial_mode
from gnnak.nn.calling.widths import node_widths
from gnnak.nn.checks import check_states
from gnnak.nn.failures import first_weight
from gnnak.nn.options import LayerOptions
from gnnak.nn.shared_inputs import SharedInputs
from gnnak.nn.uplift import GNNAK
from gnnak.nn.uplifted_conv import (
    UpliftedConv,
    check_devices,
    check_graph,
    num_rows,
)


@dataclass(frozen=True)
class LayerPlan:
    """How the GNN-AK layers of an uplifted model are built."""

    max_hops: int
    """Largest distance from a node to the root that the subgraphs may have."""
    options: LayerOptions
    """Options of the layers."""

    def build(self, conv: nn.Module, in_channels: int, calling: Calling) -> GNNAK:
        """Build the layer around a conv whose node states have `in_channels`."""
        return GNNAK(
            conv,
            in_channels,
            calling.out_channels,
            max_hops=self.max_hops,
            hop="add",
            options=self.options,
            calling=calling,
        )


class LazyUpliftedConv(nn.Module):
    """An uplifted conv whose GNN-AK layer is not built yet.

    The layer is built as soon as the widths of the conv are known: by `built`, if the
    conv declares its widths, or else in the first call. Building the layer turns this
    object into an `UpliftedConv`.

    Args:
        conv: The conv, or another module.
        shared: What all uplifted convs of a model share.
        plan: How the layer is built.
        call: How the user says that the module is called; None = find out.
        name: Name of the conv in the model, for error messages.
        like: A weight whose dtype and device the layer takes if the conv has no
            weights; None = those of the input of the first call.
    """

    def __init__(
        self,
        conv: nn.Module,
        shared: SharedInputs,
        plan: LayerPlan,
        call: Call | None,
        name: str,
        like: Tensor | None,
    ) -> None:
        super().__init__()
        if call is None:
            check_callable(conv)
        self.conv = conv
        self.shared = shared
        self.plan = plan
        self.binding = Binding.of(conv, call)
        self.name = name
        own = first_weight(conv)
        like = like if own is None else own
        self.has_weights = like is not None
        device, dtype = (None, None) if like is None else (like.device, like.dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)  # type: ignore[call-arg]

    def built(self) -> nn.Module:
        """Build the layer if the widths of the conv are known; return this module.

        Raises:
            WidthError: If the conv fails with every declared input width.
        """
        conv, call = self.conv, self.binding.call
        if call is not None:
            if call.in_channels is not None and call.out_channels is not None:
                calling = call.calling(conv, call.out_channels)
                self._become(call.in_channels, calling)
            return self
        widths = own_widths(conv)
        if widths is not None:
            name = type(conv).__name__
            self._become(widths[0], try_out(conv, widths[0], f"as {name} declares"))
        elif node_widths(conv) and not any(further_arguments(conv).values()):
            name, declared = type(conv).__name__, node_widths(conv)[0]
            try_out(conv, declared, f"as {name} declares")
        return self

    @property
    def called_like(self) -> nn.Module:
        """The conv, whose arguments this module takes."""
        return self.conv

    def forward(self, *args: Any, **options: Any) -> Any:
        """Build the layer for the width of the node states, then call the layer."""
        x, edges, _ = self.binding.bind(args, options)
        check_graph(x, edges, self.binding.name, self.name)
        edge_index, _ = self.shared.edges.read(edges, num_rows(x))
        check_devices(x, edge_index)
        if not x.is_floating_point():
            name = self.name or self.binding.name
            raise GraphError(
                f"the first argument of {name}, {self.binding.states}, is {x.dtype}, "
                "but node states are real numbers; leave this conv out with "
                f"skip={name!r}, or say what its arguments are with call=."
            )
        width = x.size(1) if x.dim() == 2 else 0
        check_states(x, width)
        self._become(width, self._calling(x, args, options), x)
        self.width_of_first_call = True
        if self.training and torch.is_grad_enabled():
            warnings.warn(
                f"the GNN-AK layer of {self.name or self.binding.name} is built now, "
                f"for states of width {width}, and an optimizer that was built before "
                "does not train it; first call the model once under torch.no_grad(), "
                "then build the optimizer.",
                stacklevel=2,
            )
        return self(*args, **options)

    def _calling(self, x: Tensor, args: tuple[Any, ...], options: Any) -> Calling:
        """Find out by a trial call how the conv is called, and its output width."""
        conv, call = self.conv, self.binding.call
        if call is None and not unknown_arguments(conv):
            try:
                return try_out(conv, x.size(1), "the width of x")
            except WidthError:
                if not further_arguments(conv):
                    raise
        with trial_mode(conv):
            out = conv(*args, **options)
        is_tuple = isinstance(out, tuple | list)
        states = out[0] if is_tuple else out
        name = type(conv).__name__
        if not isinstance(states, Tensor) or states.shape[:-1] != x.shape[:1]:
            raise WidthError(
                f"{name} returns no node states [{x.size(0)}, c]; leave it out with "
                f"skip={self.name or name!r}."
            )
        if call is not None:
            return call.calling(conv, states.size(1))
        return Calling(
            name,
            states.size(1),
            ("edge_attr", "edge_weight"),
            takes_batch="batch" in self.binding.names,
            needs_edges=False,
            returns_tuple=is_tuple,
            keywords=keywords(conv),
        )

    def _become(
        self, in_channels: int, calling: Calling, x: Tensor | None = None
    ) -> None:
        """Build the layer, and turn this module into an `UpliftedConv`.

        Args:
            in_channels: Width of the node states.
            calling: How the conv is called.
            x: Node states of the first call; None if there was no call yet.
        """
        layer = self.plan.build(self.conv, in_channels, calling)
        if first_weight(self.conv) is None:
            like = self.weight if self.has_weights or x is None else x
            layer.to(like.device, like.dtype)
        layer.train(self.training)
        del self.conv, self.weight, self.plan, self.has_weights
        self.layer = layer
        self.__class__ = UpliftedConv  # type: ignore[assignment]

    def extra_repr(self) -> str:
        """Return a note that the layer is not built yet, as text for `repr`."""
        return "built at the first call, for the width of its input"
