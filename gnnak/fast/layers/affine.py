r"""States of edges with one real feature: a ReLU of an affine function of it.

The encoder of the feature $v$ is a Linear without bias (weight $w$), a batch norm
(weight $\gamma$, bias $\beta$) and a ReLU. With $\mu$ and $\sigma^2$ the mean and the
variance of $w v$, which are those of $v$ times $w$ and $w^2$, the state of an edge is

$$\text{ReLU}(a v + b) \qquad a = \frac{\gamma w}{\sqrt{\sigma^2 + \epsilon}} \qquad
  b = \beta - \frac{\gamma \mu}{\sqrt{\sigma^2 + \epsilon}}$$

The slope $a$, the offset $b$ and one number per edge are enough; no tensor [e, c] is
computed.
"""

import torch
from torch import Tensor, nn

from gnnak.fast.kernels.plain import remember, statistics
from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.parts import Block, blocks_of, is_fusable
from gnnak.nn.features import ContinuousEncoder


def affine_states(
    encoder: nn.Module, values: Tensor | None, num_edges: int
) -> EdgeStates | None:
    """Encode raw edge features in affine form, or return None where that is impossible.

    It is possible for a `ContinuousEncoder` of one feature without forward hooks, on at
    least two edges, if the features need no gradient.

    Args:
        encoder: An encoder of features.
        values: The features, [e] or [e, c].
        num_edges: Number of edges, e.
    """
    if type(encoder) is not ContinuousEncoder or encoder.in_channels > 1:
        return None
    column = encoder.checked(values, num_edges)
    (block,) = blocks_of(nn.Sequential(encoder.block))
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in encoder.modules())
    if hooked or column.requires_grad or num_edges < 2 or not is_fusable(block.norm):
        return None
    return EdgeStates(_slope_and_offset(block, column), column[:, 0])


def _slope_and_offset(block: Block, values: Tensor) -> Tensor:
    """Return slope a and offset b of Linear and norm, [2, c], on values [e, 1].

    In training this updates the running statistics of the norm, as the norm does.
    """
    norm, weight = block.norm, block.linear.weight[:, 0]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # Clone: the backward pass needs this value, and training updates it in place.
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
