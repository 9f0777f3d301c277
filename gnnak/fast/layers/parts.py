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
    """The Linear and the norm of one block (Linear, norm, ReLU) of an MLP."""

    linear: nn.Linear
    """The Linear, without a bias."""
    norm: BatchNorm
    """The norm between the Linear and the ReLU."""


def is_fusable(norm: BatchNorm) -> bool:
    """Return whether the fused kernels support the options of a norm.

    The norm must have a weight, a bias, running statistics and a fixed momentum.
    """
    return norm.affine and norm.track_running_stats and norm.momentum is not None


def has_hooks(module: nn.Module) -> bool:
    """Return whether a module has forward or backward hooks."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def can_fuse_norm(norm: BatchNorm, x: Tensor) -> bool:
    """Return whether the fused kernels can apply a norm to the rows of `x`.

    This needs a norm that `is_fusable` accepts, training in a single process, and at
    least two rows, each contiguous in memory.

    Args:
        norm: The norm.
        x: The input of the norm, [m, c].
    """
    rows = x.dim() == 2 and x.size(0) > 1 and x.stride(1) == 1
    return rows and is_fusable(norm) and not several_processes()


def blocks_of(transform: nn.Module) -> list[Block]:
    """Return the Linear and the norm of each block of an MLP.

    Args:
        transform: The MLP, an `nn.Sequential` of blocks; each block is an
            `nn.Sequential` of Linear, norm and ReLU.
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
    """Return the Linears and the norm of an MLP made of Linear, norm, ReLU, Linear.

    The result is None if the module is not such an MLP, or cannot be fused.

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
