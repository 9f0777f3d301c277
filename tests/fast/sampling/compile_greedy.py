"""A program that compiles the kernels of sampling for a GPU where there is none."""

import torch

from gnnak import EgoNets, SubgraphDrop
from gnnak.fast.sampling import fast_filling, sample_greedily
from tests.no_gpu import print_sizes_of_kernels

SIZES = (5, 40, 250)


def serves(_: torch.Tensor) -> bool:
    return True


def main() -> None:
    print_sizes_of_kernels()
    for size in SIZES:
        path = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
        subs = EgoNets(2)(path, size)
        plan = SubgraphDrop("farthest").plan(subs, path)
        for farthest in (True, False):
            sample_greedily(serves, farthest, subs, plan, 3)
        kept = torch.ones(size, dtype=torch.bool)
        number = torch.arange(size)
        fast_filling(serves, subs, path, kept, number, subs.root, plan)


if __name__ == "__main__":
    main()
