"""Regular two-graphs on 26 points, and the strongly regular graphs in them.

The *Seidel matrix* of a graph has 0 on the diagonal, -1 for adjacent nodes and +1 for
other pairs. *Switching* a set of nodes flips the sign of their rows and columns. A
*two-graph* is the set of all graphs that switching turns into each other; it is
*regular* if their Seidel matrices have exactly two distinct eigenvalues. The nodes are
also called points. Switching one graph so that a given point is isolated, and removing
that point, gives a *descendant* of the two-graph. There are four regular
two-graphs on 26 points: two contain a Latin square graph of order 5 plus an isolated
point, two contain the block graph of a Steiner triple system on 13 points.
"""

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.int64]
Block = frozenset[int]

_CYCLIC_BLOCKS = ({0, 1, 4}, {0, 2, 7})
"""The two base blocks of the cyclic Steiner triple system on 13 points. The 26 blocks
that they give when shifted by 0 to 12 modulo 13 contain every pair of points exactly
once, because the differences in the base blocks are 1, 3, 4 and 2, 5, 6."""

_SECOND_SQUARE = ("01234", "10342", "23401", "34120", "42013")
"""A Latin square of order 5 with a 2x2 Latin subsquare, one string per row. The cyclic
Latin square has no such subsquare."""


def latin_squares() -> list[Matrix]:
    """Return two Latin squares of order 5, one of each main class (there are two)."""
    cyclic = np.add.outer(np.arange(5), np.arange(5)) % 5
    second = np.array([[int(symbol) for symbol in row] for row in _SECOND_SQUARE])
    return [cyclic, second]


def triple_systems() -> list[list[Block]]:
    """Return the two Steiner triple systems on 13 points.

    Each system has 26 triples, and every pair of points is in exactly one triple. The
    second system is the first with four triples on six points (a quadrilateral, or
    Pasch configuration) replaced by the four other triples that cover the same pairs.
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
            others = [block for block in first if block not in four]
            return [first, others + exchanged]
    raise AssertionError("the cyclic triple system has quadrilaterals")


def regular_two_graphs() -> list[Matrix]:
    """Return a Seidel matrix of each of the four regular two-graphs on 26 points.

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
    """Return the Seidel matrix of a boolean adjacency matrix."""
    matrix = np.where(joined, -1, 1)
    np.fill_diagonal(matrix, 0)
    return matrix.astype(np.int64)


def switched(matrix: Matrix, signs: Matrix) -> Matrix:
    """Switch a Seidel matrix: multiply row and column `i` by `signs[i]` (1 or -1)."""
    return matrix * np.outer(signs, signs)


def descendants(matrix: Matrix) -> list[Matrix]:
    """Return the descendant of a two-graph for each of its points.

    The descendant is the graph switched so that the point is isolated, without that
    point.

    Args:
        matrix: The Seidel matrix of a graph of the two-graph.
    """
    found = []
    for point in range(len(matrix)):
        signs = matrix[point].copy()
        signs[point] = 1
        alone = switched(matrix, signs)
        found.append(np.delete(np.delete(alone, point, 0), point, 1))
    return found


def regular_members(matrix: Matrix, value: int) -> list[Matrix]:
    """Return every switching of the matrix after which all rows sum to `value`.

    The signs of these switchings are the eigenvectors of the eigenvalue `value` whose
    entries are all +1 or -1. If the eigenspace has d dimensions, some d entries
    determine an eigenvector, so all sign patterns of those d entries are tried. The
    first of them is fixed to +1, because opposite signs give the same switching.

    Args:
        matrix: A Seidel matrix.
        value: The row sum, an eigenvalue of the matrix.
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
    """Return the indices of the first rows that form a basis of the row space."""
    chosen: list[int] = []
    for row in range(len(space)):
        if np.linalg.matrix_rank(space[[*chosen, row]], tol=1e-6) > len(chosen):
            chosen.append(row)
    return chosen
