"""A program that compiles kernels of padding and extraction where there is no GPU."""

import torch

from gnnak.fast.extraction import fast_induced_edges, fast_reach, pad_rows
from gnnak.graphs.adjacency import incoming
from tests.no_gpu import print_sizes_of_kernels


def serves(_: torch.Tensor) -> bool:
    return True


def main() -> None:
    print_sizes_of_kernels()
    first, count = torch.tensor([0, 3]), torch.tensor([3, 2])
    for value in (torch.rand(5, 2), torch.arange(5), torch.arange(5).double()):
        pad_rows(serves, value, first, count, 8, 1)
    pad_rows(serves, torch.ones(5, dtype=torch.bool), first, count, 8, 0)
    ring = torch.stack([torch.arange(5), torch.arange(5).roll(1)])
    node, subgraph = torch.arange(5), torch.zeros(5, dtype=torch.long)
    neighbors = incoming(ring, 5)
    fast_reach(serves, node, neighbors, 2, all_roots=True)
    fast_induced_edges(serves, node, subgraph, 1, neighbors)


if __name__ == "__main__":
    main()
