"""Regular two-graphs on 26 points, and the strongly regular graphs inside them.

A *Seidel matrix* has 0 on the diagonal, -1 for joined and +1 for other pairs. Changing
the sign of some rows and the same columns is *switching*; all matrices reached that way
are one *two-graph*. It is regular if the matrix has two eigenvalues only. There are
four regular two-graphs on 26 points: two hold the Latin square graphs of order 5 with a
point added, two the block graphs of the Steiner triple systems on 13 points.
"""

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.int64]
Block = frozenset[int]

_CYCLIC_BLOCKS = ({0, 1, 4}, {0, 2, 7})
"""Shifted by 0 to 12 they hold each pair once: differences 1, 3, 4 and 2, 5, 6."""

_SECOND_SQUARE = ("01234", "10342", "23401", "34120", "42013")
"""A Latin square of order 5 with a 2x2 subsquare, which the cyclic one has not."""


def latin_squares() -> list[Matrix]:
    """The two Latin squares of order 5 that are not rearrangements of each other."""
    cyclic = np.add.outer(np.arange(5), np.arange(5)) % 5
    second = np.array([[int(symbol) for symbol in row] for row in _SECOND_SQUARE])
    return [cyclic, second]


def triple_systems() -> list[list[Block]]:
    """The two Steiner triple systems on 13 points: 26 triples, each pair in one.

    The second is the first with one quadrilateral of four triples on six points
    exchanged for the other four triples that hold the same pairs.
    """
    first = [
        frozenset((point + shift) % 13 for point in base)
        for base in _CYCLIC_BLOCKS
        for shift in range(13)
    ]
    for four in combinations(first, 4):
        points = frozenset.union(*four)
        if len(points) == 6:
            exchanged = [points - block for block in four]
            kept = [block for block in first if block not in four]
            return [first, kept + exchanged]
    raise AssertionError("the cyclic triple system has quadrilaterals")


def regular_two_graphs() -> list[Matrix]:
    """A Seidel matrix of each of the four regular two-graphs on 26 points.

    >>> [bool((s @ s == 25 * np.eye(26)).all()) for s in regular_two_graphs()]
    [True, True, True, True]
    """
    cells = list(product(range(5), repeat=2))
    found = []
    for square in latin_squares():
        lines = [(("r", r), ("c", c), ("s", int(square[r, c]))) for r, c in cells]
        joined = [[len({*a} & {*b}) == 1 for b in lines] for a in lines]
        found.append(_seidel(np.pad(np.array(joined), (0, 1))))
    for blocks in triple_systems():
        joined = [[len(a & b) == 1 for b in blocks] for a in blocks]
        found.append(_seidel(np.array(joined)))
    return found


def _seidel(joined: NDArray[np.bool_]) -> Matrix:
    matrix = np.where(joined, -1, 1)
    np.fill_diagonal(matrix, 0)
    return matrix.astype(np.int64)


def switched(matrix: Matrix, signs: Matrix) -> Matrix:
    """Switch a Seidel matrix: row and column `i` are multiplied by `signs[i]`."""
    return matrix * np.outer(signs, signs)


def descendants(matrix: Matrix) -> list[Matrix]:
    """Switch each point off its neighbours and remove it: one matrix for each point."""
    found = []
    for point in range(len(matrix)):
        signs = matrix[point].copy()
        signs[point] = 1
        alone = switched(matrix, signs)
        found.append(np.delete(np.delete(alone, point, 0), point, 1))
    return found


def regular_members(matrix: Matrix, value: int) -> list[Matrix]:
    """All ways of switching after which every row sums to `value`, an eigenvalue.

    They are the eigenvectors with entries +1 and -1. Such a vector is fixed by as many
    of its entries as the eigenspace has dimensions, so all are tried.
    """
    size = len(matrix)
    values, vectors = np.linalg.eigh(matrix.astype(float))
    space = vectors[:, np.abs(values - value) < 1e-6]
    free = _independent_rows(space)
    solve = space @ np.linalg.inv(space[free])
    tries = np.array(list(product((1.0, -1.0), repeat=len(free) - 1)))
    tries = np.concatenate([np.ones((len(tries), 1)), tries], axis=1)
    whole = tries @ solve.T
    good = (np.abs(np.abs(whole) - 1) < 1e-6).all(axis=1)
    signs = np.rint(whole[good]).astype(np.int64).reshape(-1, size)
    return [switched(matrix, row) for row in signs]


def _independent_rows(space: NDArray[np.float64]) -> list[int]:
    """The first rows of `space` that span its row space."""
    chosen: list[int] = []
    for row in range(len(space)):
        if np.linalg.matrix_rank(space[[*chosen, row]], tol=1e-6) > len(chosen):
            chosen.append(row)
    return chosen
