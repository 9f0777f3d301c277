"""A program that compiles kernels of padding and extraction where there is no GPU."""

import torch

from gnnak.fast import padding as fast_padding
from gnnak.fast.extraction import fast_induced_edges
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs.copy_limit import CopyLimit
from tests.no_gpu import print_sizes_of_kernels


def main() -> None:
    print_sizes_of_kernels()
    first, count = torch.tensor([0, 3]), torch.tensor([3, 2])
    for value in (torch.rand(5, 2), torch.arange(5), torch.arange(5).double()):
        fast_padding.pad_rows(value, first, count, 8, 1)
    fast_padding.pad_rows(torch.ones(5, dtype=torch.bool), first, count, 8, 0)
    ring = torch.stack([torch.arange(5), torch.arange(5).roll(1)])
    node, subgraph = torch.arange(5), torch.zeros(5, dtype=torch.long)
    limit = CopyLimit(None, node.device)
    fast_induced_edges(node, subgraph, 1, incoming(ring, 5), limit)


if __name__ == "__main__":
    main()
