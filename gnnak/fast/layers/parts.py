"""Check whether modules can be fused, and find the Linears and norms inside them."""

from typing import NamedTuple

from torch import Tensor, nn

from gnnak.nn.norm import BatchNorm, several_processes


class TwoLinears(NamedTuple):
    """The two Linears and the norm of an MLP made of Linear, norm, ReLU, Linear."""

    first: nn.Linear
    """The Linear before the norm, without a bias."""
    norm: BatchNorm
    """The norm before the ReLU."""
    second: nn.Linear
    """The last Linear, with or without a bias."""


class Block(NamedTuple):
    """The Linear and the norm of a `dense_block`, which is Linear, norm and ReLU."""

    linear: nn.Linear
    """The Linear, without a bias."""
    norm: BatchNorm
    """The norm between the Linear and the ReLU."""


def is_fusable(norm: BatchNorm) -> bool:
    """Return whether fused kernels support the options of a norm.

    They need a weight and a bias, running statistics, and a fixed momentum.
    """
    return norm.affine and norm.track_running_stats and norm.momentum is not None


def has_hooks(module: nn.Module) -> bool:
    """Return whether a module has forward or backward hooks."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return any(getattr(module, kind) for kind in (*kinds, "_backward_pre_hooks"))


def can_fuse_norm(norm: BatchNorm, x: Tensor) -> bool:
    """Return whether fused kernels can apply a norm to these rows, also in training.

    They can if `is_fusable(norm)`, if training is not distributed, and if there are at
    least two rows, each contiguous in memory.

    Args:
        norm: The norm.
        x: A matrix with m rows, [m, c].
    """
    rows = x.dim() == 2 and x.size(0) > 1 and x.stride(1) == 1
    return rows and is_fusable(norm) and not several_processes()


def blocks_of(transform: nn.Module) -> list[Block]:
    """Return the Linear and the norm of each block of an MLP.

    Args:
        transform: The MLP, an `nn.Sequential` of blocks (Linear, norm, ReLU).
    """
    assert isinstance(transform, nn.Sequential)
    blocks = []
    for block in transform:
        assert isinstance(block, nn.Sequential)
        linear, norm, _ = block
        assert isinstance(linear, nn.Linear)
        assert isinstance(norm, BatchNorm)
        blocks.append(Block(linear, norm))
    return blocks


def two_linears(module: nn.Module) -> TwoLinears | None:
    """Return the Linears and the norm of an MLP with one hidden layer.

    The result is None for all other modules.

    >>> from gnnak.nn.mlp import mlp
    >>> two_linears(mlp([2, 3, 4])).second
    Linear(in_features=3, out_features=4, bias=True)
    """
    if not isinstance(module, nn.Sequential) or len(module) != 2:
        return None
    block, second = module
    if not isinstance(block, nn.Sequential) or len(block) != 3:
        return None
    first, norm, act = block
    if type(first) is not nn.Linear or type(second) is not nn.Linear:
        return None
    if type(norm) is not BatchNorm or not is_fusable(norm) or type(act) is not nn.ReLU:
        return None
    return None if first.bias is not None else TwoLinears(first, norm, second)
