"""Edge states by the few numbers they follow from, so that no edge has a row.

A category is a row of a small table. A single real feature v, multiplied, normed and
cut off, is ReLU(slope * v + offset): the mean and the deviation of `matrix * v` are
those of v, times the matrix.
"""

import torch
from torch import Tensor, nn

from gnnak.nn.features import CategoricalEncoder, ConstantEncoder, ContinuousEncoder
from gnnak.nn.fused.parts import Block, blocks_of
from gnnak.nn.fused.rows import real_of
from gnnak.nn.kernels.plain import remember, statistics
from gnnak.nn.kernels.records import EdgeStates

FEW = 8
"""Rows of a table, at most."""


def few_states(
    encoder: nn.Module, values: Tensor | None, num_edges: int, like: Tensor
) -> EdgeStates | None:
    """What an encoder makes of raw edge features; None where this needs rows.

    Args:
        encoder: An encoder of features.
        values: The features, [e], [e, c] or none.
        num_edges: Number of edges, e.
        like: States of nodes, on their device.
    """
    if encoder._forward_hooks or encoder._forward_pre_hooks:
        return None
    if type(encoder) is ConstantEncoder and values is None:
        key = torch.zeros(num_edges, dtype=torch.long, device=like.device)
        return EdgeStates(encoder.weight, key, "table")
    if type(encoder) is CategoricalEncoder:
        table = encoder.tables.weight
        if encoder.limit.numel() > 1 or len(table) > FEW:
            return None
        return EdgeStates(table, encoder.rows(values, num_edges), "table")
    if type(encoder) is ContinuousEncoder and encoder.in_channels == 1:
        column = encoder.checked(values, num_edges)
        (block,) = blocks_of(nn.Sequential(encoder.block))
        if num_edges > 1 and block.norm.fusable and not column.requires_grad:
            return _line(block, column)
    return None


def _line(block: Block, values: Tensor) -> EdgeStates:
    """Linear, norm, ReLU of values [e, 1]."""
    norm, matrix = block.norm, block.linear.weight[:, 0]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean, variance = norm.running_mean, norm.running_var
    if norm.training:
        middle, spread, count = statistics(values, real_of(values))
        found, around = middle * matrix, spread * matrix.square()
        several = count > 1
        mean = torch.where(several, found, mean)
        variance = torch.where(several, around, variance)
        with torch.no_grad():
            unbiased = around * (count / (count - 1).clamp(min=1))
            remember(norm, found, unbiased, several)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    line = torch.stack([scale * matrix, norm.bias - scale * mean])
    return EdgeStates(line, values[:, 0], "line")
