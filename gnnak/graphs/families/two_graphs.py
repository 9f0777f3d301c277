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
"""Two triples of the points 0 to 12. Adding 0, 1, ..., 12 modulo 13 to both gives 26
triples, which contain every pair of the 13 points exactly once."""

_SECOND_SQUARE = ("01234", "10342", "23401", "34120", "42013")
"""A 5x5 Latin square, one string per row. It cannot be turned into the cyclic Latin
square, (row + column) mod 5, by permuting rows, columns and symbols."""


def latin_squares() -> list[Matrix]:
    """Return two 5x5 Latin squares, the cyclic one and one that is not equivalent.

    Two Latin squares are equivalent if permuting rows, columns and symbols, or
    exchanging the roles of these three, turns one square into the other. Every 5x5
    Latin square is equivalent to one of the two returned squares.
    """
    cyclic = np.add.outer(np.arange(5), np.arange(5)) % 5
    second = np.array([[int(symbol) for symbol in row] for row in _SECOND_SQUARE])
    return [cyclic, second]


def triple_systems() -> list[list[Block]]:
    """Return the two Steiner triple systems on 13 points.

    Each system has 26 triples, and every pair of points is in exactly one triple. The
    second system is the first one with four triples (a Pasch configuration) replaced by
    four other triples that contain the same pairs of points.
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
    """Return four 26x26 matrices from which strongly regular graphs are built.

    Each is the Seidel matrix of a graph: 0 on the diagonal, -1 for adjacent nodes and
    +1 for other pairs. The docstring of this module defines regular two-graphs; there
    are four of them on 26 points, and each of the graphs belongs to a different one.

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
    """Convert a boolean adjacency matrix to a Seidel matrix.

    A Seidel matrix has 0 on the diagonal, -1 for adjacent nodes and +1 for other pairs.
    """
    matrix = np.where(joined, -1, 1)
    np.fill_diagonal(matrix, 0)
    return matrix.astype(np.int64)


def switched(matrix: Matrix, signs: Matrix) -> Matrix:
    """Multiply row i and column i of a Seidel matrix by `signs[i]` (1 or -1)."""
    return matrix * np.outer(signs, signs)


def descendants(matrix: Matrix) -> list[Matrix]:
    """For each node, isolate the node by switching, and remove it from the graph.

    Switching a set of nodes exchanges edges and non-edges between the set and the other
    nodes. The resulting graphs are called descendants.

    Args:
        matrix: The graph as a Seidel matrix: 0 on the diagonal, -1 for adjacent nodes,
            +1 for other pairs.

    Returns:
        For each node, the Seidel matrix of the graph without the node.
    """
    found = []
    for point in range(len(matrix)):
        signs = matrix[point].copy()
        signs[point] = 1
        alone = switched(matrix, signs)
        found.append(np.delete(np.delete(alone, point, 0), point, 1))
    return found


def regular_members(matrix: Matrix, value: int) -> list[Matrix]:
    """Return all regular graphs of one degree into which switching turns a graph.

    Switching a set of nodes multiplies their rows and columns of the Seidel matrix by
    -1. Afterwards every row sums to `value` if and only if the vector with -1 for
    switched nodes and +1 for other nodes is an eigenvector with eigenvalue `value`. So
    the function finds all such eigenvectors.

    Args:
        matrix: The graph as a Seidel matrix: 0 on the diagonal, -1 for adjacent nodes,
            +1 for other pairs.
        value: Sum of every row of the returned matrices; an eigenvalue of `matrix`.

    Returns:
        The Seidel matrix of each regular graph.
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
    """Return the indices of rows that form a basis of the row space."""
    chosen: list[int] = []
    for row in range(len(space)):
        if np.linalg.matrix_rank(space[[*chosen, row]], tol=1e-6) > len(chosen):
            chosen.append(row)
    return chosen
