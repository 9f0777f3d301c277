"""What the kernels are handed beside tensors of states."""

from typing import NamedTuple

from torch import Tensor

from gnnak.subgraphs.groups import Groups


class Edges(NamedTuple):
    """Edge copies, and how they are grouped."""

    source: Tensor
    """[f]: the copy each one leaves."""
    target: Tensor
    """[f]: the copy it enters."""
    edge: Tensor
    """[f]: the edge it stands for."""
    by_target: Groups
    """Edge copies that enter one copy; they stand in this order."""
    by_source: Groups
    """Edge copies that leave one copy."""
    by_edge: Groups
    """Edge copies that stand for one edge."""


class Constants(NamedTuple):
    """What a norm does to its columns: `scale * h + shift`."""

    scale: Tensor
    """[c]."""
    shift: Tensor
    """[c]."""
    mean: Tensor
    """[c]: what it takes off."""
    rstd: Tensor
    """[c]: what it multiplies with before weight and bias."""
    of_batch: bool
    """Whether these are statistics of the rows themselves."""
    real: Tensor | None
    """Number of rows that are no padding, a scalar; None = all."""
