"""Warn about node states that grow without bound from layer to layer."""

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs

PASSES = 3
"""Number of forward passes in training in which states are measured."""
MAX_GROWTH = 10.0
"""`GrowthWatch` warns if states after the last layer are more than this many times as
large as before the first layer, and if `MAX_SIZE` is exceeded too."""
MAX_SIZE = 30.0
"""`GrowthWatch` warns only if the root mean square of the model's output is larger than
this number."""


class _LayerSizes(NamedTuple):
    """The size of node states before and after one layer, in one forward pass.

    The size of states is their root mean square.
    """

    name: str
    """Name of the layer in the model."""
    before: float
    """Size of the states before the layer."""
    after: float
    """Size of the states after the layer."""
    nodes: float
    """Mean number of nodes of a subgraph."""


class GrowthWatch:
    """Warns if node states grow from layer to layer, in the first passes in training.

    Sum pools over large subgraphs multiply the size of states in every layer. Without a
    norm between the layers, the first loss is then very large, and training is slow or
    fails. The size of states is their root mean square.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._sizes: list[_LayerSizes] = []

    @torch.compiler.disable
    def see(
        self,
        name: str,
        layer: GNNAK,
        x: Tensor,
        states: Tensor,
        subgraphs: RootedSubgraphs,
    ) -> None:
        """Measure the states before and after a layer; synchronises on a GPU.

        This does nothing in evaluation, for padded batches, after the first `PASSES`
        forward passes, and for layers that do not pool by sums.

        Args:
            name: Name of the layer in the model.
            layer: The layer.
            x: Node states before the layer, [n, c].
            states: Node states after the layer, [n, c].
            subgraphs: The subgraphs that the layer used.
        """
        if self._passes >= PASSES or not layer.training or not x.numel():
            return
        capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()
        if capturing or subgraphs.real is not None:
            # Steps on padded batches are captured, so they must not synchronise.
            return
        if layer.reduce == "sum" and layer.encodings != ("centroid",):
            nodes = subgraphs.num_copies / max(subgraphs.num_subgraphs, 1)
            self._sizes.append(_LayerSizes(name, _size(x), _size(states), nodes))

    @torch.compiler.disable
    def end_pass(self, model: object, args: object, output: Any) -> None:
        """Warn if states have grown; this method is a PyTorch forward hook.

        Args:
            model: The model; ignored.
            args: Arguments of the model; ignored.
            output: Output of the model.
        """
        if not self._sizes:
            return
        layers, self._sizes = self._sizes, []
        self._passes += 1
        growth = layers[-1].after / max(layers[0].before, 1e-12)
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        size = _size(output)
        if growth > MAX_GROWTH and size > MAX_SIZE:
            self._passes = PASSES
            worst = max(layers, key=lambda each: each.after / max(each.before, 1e-12))
            warnings.warn(_message(len(layers), growth, size, worst), stacklevel=2)


def _message(count: int, growth: float, size: float, worst: _LayerSizes) -> str:
    """Return the warning.

    Args:
        count: Number of layers that were measured.
        growth: Size of the states after the last layer, relative to that before the
            first layer.
        size: Size of the model's output.
        worst: The layer that multiplies the size of states by the largest factor.
    """
    return (
        f"{count} uplifted convs multiply the size of node states by "
        f"{growth:.0f}, and the model's output has a typical size of {size:.0f}; most "
        f"of it comes from {worst.name or 'the conv'}, which adds up the states of "
        f"{worst.nodes:.0f} nodes per subgraph. Set reduce='mean' in gnnak.uplift, or "
        "put a norm, such as BatchNorm, after every conv. Warned once per model."
    )


def _size(values: Tensor) -> float:
    """Return the root mean square of the entries of a tensor; 0 for an empty tensor."""
    values = values.detach()
    return float(values.square().mean().sqrt()) if values.numel() else 0.0
