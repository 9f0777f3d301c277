r"""Edge states in affine form, for edges that have one real number as raw feature.

The encoder of the number $v$ is a Linear without bias (weight $w$), a batch norm
(weight $\gamma$, bias $\beta$) and a ReLU. Let $\mu$ and $\sigma^2$ be the mean and the
variance of $w v$ over all edges. Then the state of an edge is

$$\text{ReLU}(a v + b) \qquad a = \frac{\gamma w}{\sqrt{\sigma^2 + \epsilon}} \qquad
  b = \beta - \frac{\gamma \mu}{\sqrt{\sigma^2 + \epsilon}}$$

The affine form of the edge states consists of the slope $a$, the offset $b$ and one
number per edge. The tensor of all e edge states, [e, c], is never computed.
"""

import torch
from torch import Tensor, nn

from gnnak.fast.kernels.plain import remember, statistics
from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.parts import Block, blocks_of, has_hooks, is_fusable
from gnnak.nn.features import ContinuousEncoder


def affine_states(
    encoder: nn.Module, values: Tensor | None, num_edges: int
) -> EdgeStates | None:
    """Return edge states as a slope, an offset and one number per edge, if possible.

    The state of an edge is then ReLU(slope * number + offset). This is possible if the
    encoder is a `ContinuousEncoder` of one feature without forward hooks, if fused
    kernels support the encoder's norm, if there are at least two edges, and if the
    features need no gradient. Otherwise return None.

    Args:
        encoder: The encoder of raw edge features.
        values: The raw edge features, [e] or [e, v], a row for each of the e edges; may
            be None for encoders other than `ContinuousEncoder`.
        num_edges: Number of edges, e.
    """
    if type(encoder) is not ContinuousEncoder or encoder.in_channels > 1:
        return None
    column = encoder.checked(values, num_edges)
    (block,) = blocks_of(nn.Sequential(encoder.block))
    hooked = any(map(has_hooks, encoder.modules()))
    if hooked or column.requires_grad or num_edges < 2 or not is_fusable(block.norm):
        return None
    return EdgeStates(_slope_and_offset(block, column), column[:, 0])


def _slope_and_offset(block: Block, values: Tensor) -> Tensor:
    """Combine a Linear and a batch norm into one slope and one offset per channel.

    In training, the norm takes its statistics from `values`, one raw number per edge,
    and updates its running statistics.
    """
    norm, weight = block.norm, block.linear.weight[:, 0]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # Clone the running mean: the backward pass reads the mean that is used here, and
    # training updates the running mean in place.
    mean, variance = norm.running_mean.clone(), norm.running_var
    if norm.training:
        value_mean, value_variance, count = statistics(values, norm.real_rows())
        batch_mean = value_mean * weight
        batch_variance = value_variance * weight.square()
        several = count > 1
        mean = torch.where(several, batch_mean, mean)
        variance = torch.where(several, batch_variance, variance)
        with torch.no_grad():
            unbiased = batch_variance * count / (count - 1).clamp(min=1)
            remember(norm, batch_mean, unbiased, several)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    return torch.stack([scale * weight, norm.bias - scale * mean])
