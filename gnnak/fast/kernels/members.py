"""Which rows are in which group, one entry a row: for kernels in plain PyTorch."""

import torch
from torch import Tensor

from gnnak.subgraphs.groups import Groups


def members(groups: Groups) -> tuple[Tensor, Tensor]:
    """The group and the number of every row that is in one."""
    counts = groups.ptr.diff()
    key = torch.arange(len(groups), device=counts.device).repeat_interleave(counts)
    row = torch.arange(key.numel(), device=counts.device)
    return key, row if groups.order is None else groups.order[: key.numel()]
