r"""States of edges with a single real feature: a line that is cut off at 0.

What the encoder makes of a feature $v$, with the norm's $\gamma$ and $\beta$ and the
statistics $\mu, \sigma^2$ of $w v$, which are those of $v$ times $w$ and $w^2$, is

$$\text{ReLU}(a v + b) \qquad a = \frac{\gamma w}{\sqrt{\sigma^2 + \epsilon}} \qquad
  b = \beta - \frac{\gamma \mu}{\sqrt{\sigma^2 + \epsilon}}$$

No edge needs a row of its own.
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
    """What an encoder makes of raw edge features; None if it is no line.

    Args:
        encoder: An encoder of features.
        values: The features, [e] or [e, c].
        num_edges: Number of edges, e.
    """
    if type(encoder) is not ContinuousEncoder or encoder.in_channels > 1:
        return None
    column = encoder.checked(values, num_edges)
    (block,) = blocks_of(nn.Sequential(encoder.block))
    heard = any(m._forward_hooks or m._forward_pre_hooks for m in encoder.modules())
    if heard or column.requires_grad or num_edges < 2 or not is_fusable(block.norm):
        return None
    return EdgeStates(_line(block, column), column[:, 0])


def _line(block: Block, values: Tensor) -> Tensor:
    """Slope a and offset b of Linear and norm, [2, c], on values [e, 1]."""
    norm, matrix = block.norm, block.linear.weight[:, 0]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # A copy: the backward pass needs what it is now, whatever comes between.
    mean, variance = norm.running_mean.clone(), norm.running_var
    if norm.training:
        middle, spread, count = statistics(values, norm.real_rows())
        found, around = middle * matrix, spread * matrix.square()
        several = count > 1
        mean = torch.where(several, found, mean)
        variance = torch.where(several, around, variance)
        with torch.no_grad():
            unbiased = around * count / (count - 1).clamp(min=1)
            remember(norm, found, unbiased, several)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    return torch.stack([scale * matrix, norm.bias - scale * mean])
