"""A program that compiles the kernels of padding for a GPU where there is none."""

import torch

from gnnak.fast import padding as fast_padding
from tests.no_gpu import print_sizes_of_kernels


def main() -> None:
    print_sizes_of_kernels()
    first, count = torch.tensor([0, 3]), torch.tensor([3, 2])
    for value in (torch.rand(5, 2), torch.arange(5), torch.arange(5).double()):
        fast_padding.pad_rows(value, first, count, 8, 1)
    fast_padding.pad_rows(torch.ones(5, dtype=torch.bool), first, count, 8, 0)


if __name__ == "__main__":
    main()
