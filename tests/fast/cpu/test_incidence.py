"""Products with matrices of zeros and ones, against dense matrices."""

import torch

from gnnak.fast.cpu import Incidence, Ones, gather_matrix

INDEX = torch.tensor([2, 0, 2, 1])
DENSE = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]]).double()


def test_gather_matrix_gathers_rows():
    values = torch.rand(3, 2, dtype=torch.double)
    assert torch.equal(gather_matrix(INDEX, 3) @ values, values[INDEX])


def test_a_transposed_gather_sums_rows():
    values = torch.rand(4, 2, dtype=torch.double)
    found = gather_matrix(INDEX, 3).T @ values
    torch.testing.assert_close(found, DENSE.T @ values, rtol=1e-12, atol=1e-12)


def test_the_transpose_of_sorted_groups_needs_no_order():
    matrix = gather_matrix(torch.tensor([0, 0, 2]), 3, in_order=True)
    rows = torch.tensor([[1.0], [2.0], [5.0]])
    assert (matrix.T @ rows).flatten().tolist() == [3, 0, 5]


def test_a_matrix_with_an_empty_row_and_a_repeated_one():
    by_row = Ones(torch.tensor([0, 0, 1]), torch.tensor([0, 2, 2, 3]))
    by_column = Ones(torch.tensor([0, 0, 2]), torch.tensor([0, 2, 3]))
    matrix = Incidence(by_row, by_column)
    assert (matrix @ torch.tensor([[1.0], [7.0]])).flatten().tolist() == [2, 0, 7]
    assert (matrix.T @ torch.tensor([[1.0], [5.0], [7.0]])).flatten().tolist() == [2, 7]


def test_a_matrix_without_ones_gives_zeros():
    none = torch.empty(0, dtype=torch.long)
    matrix = gather_matrix(none, 2)
    assert torch.equal(matrix.T @ torch.empty(0, 3), torch.zeros(2, 3))


def test_gradients_of_products_can_be_differentiated_again():
    values = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    rows = torch.rand(4, 2, dtype=torch.double, requires_grad=True)
    matrix = gather_matrix(INDEX, 3)
    for product, given in ((matrix, values), (matrix.T, rows)):
        assert torch.autograd.gradcheck(lambda x, p=product: p @ x, given)
        assert torch.autograd.gradgradcheck(lambda x, p=product: (p @ x).sin(), given)
