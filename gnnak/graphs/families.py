"""Families of graphs that Weisfeiler-Leman (WL) tests can hardly distinguish."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import gcd

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from gnnak.errors import GraphError, OptionError
from gnnak.graphs.named import Graph, rook, shrikhande, undirected

CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
"""Skips of the ten non-isomorphic graphs of the data set CSL (circular skip links)."""


def circulant(num_nodes: int, steps: Iterable[int]) -> Graph:
    """Build the graph that joins node `i` to `(i + step) % num_nodes` for each step."""
    edges = {
        (min(node, other), max(node, other))
        for step in steps
        for node in range(num_nodes)
        if node != (other := (node + step) % num_nodes)
    }
    return undirected(sorted(edges), num_nodes)


def csl(num_nodes: int = 41, skips: Sequence[int] = CSL_SKIPS) -> list[Graph]:
    """Build circular skip link (CSL) graphs, one for each of `skips`.

    With skip s, coprime to `num_nodes`, node i is joined to i ± 1 and i ± s. All graphs
    are 4-regular, so 1-WL and 2-WL distinguish no two of them; 3-WL distinguishes the
    ten default graphs. On 1-hop egonets, Subgraph-1-WL* (see `gnnak.graphs.named`)
    detects triangles only; of the default skips, only 2 gives triangles.
    """
    for skip in skips:
        if not 2 <= skip < num_nodes - 1 or gcd(skip, num_nodes) != 1:
            wanted = f"2 and {num_nodes - 2} that is coprime to num_nodes = {num_nodes}"
            raise OptionError(f"skip is {skip}; give a number between {wanted}.")
    return [circulant(num_nodes, [1, skip]) for skip in skips]


CfiNode = tuple[object, ...]


def cfi_pair(base: nx.Graph) -> tuple[Graph, Graph]:
    r"""Build two graphs, $A$ and $B$, that are hard to distinguish, from a base graph.

    The base graph is simple, connected and cubic. Each base node $u$ becomes ten nodes:
    $a_{u,v}$ and $b_{u,v}$ for each of its three neighbours $v$, and $m_S$ for each set
    $S$ of zero or two neighbours. Node $m_S$ is joined to $a_{u,v}$ if $v \in S$, else
    to $b_{u,v}$. For each base edge $(u, v)$, graph $A$ joins $a_{u,v}$ to $a_{v,u}$
    and $b_{u,v}$ to $b_{v,u}$. For one base edge, graph $B$ instead joins $a_{u,v}$ to
    $b_{v,u}$ and $b_{u,v}$ to $a_{v,u}$.

    $A$ and $B$ are not isomorphic. The k-dimensional Weisfeiler-Leman test (k-WL) can
    distinguish them only if k is larger than the size of the smallest separator of the
    base graph. Subgraph-1-WL on t-hop egonets cannot distinguish them if t <= 4 and the
    base graph has girth at least 5, even if it tests egonets for isomorphism (Theorem
    4).
    """
    check_simple(base)
    wrong = [node for node, degree in base.degree if degree != 3]
    if wrong or not base or not nx.is_connected(base):
        found = "it is empty or disconnected"
        if wrong:
            found = f"node {wrong[0]!r} does not have degree 3"
        told = f"the base graph must be connected and cubic, but {found}"
        raise GraphError(f"{told}; give another.")
    return _cfi_graph(base, None), _cfi_graph(base, next(iter(base.edges)))


def check_simple(base: nx.Graph) -> None:
    if base.is_directed() or base.is_multigraph() or nx.number_of_selfloops(base):
        told = "the base graph must be simple and undirected, but it is directed or has"
        raise GraphError(f"{told} parallel edges or self loops; give another nx.Graph.")


def _cfi_graph(base: nx.Graph, crossed: tuple[object, object] | None) -> Graph:
    """Build graph $A$ of `cfi_pair` if `crossed` is None, else graph $B$."""
    edges: list[tuple[CfiNode, CfiNode]] = [
        (("m", u, *chosen), ("a" if v in chosen else "b", u, v))
        for u in base
        for chosen in [(), *combinations(base[u], 2)]
        for v in base[u]
    ]
    for u, v in base.edges:
        other = {"a": "b", "b": "a"} if (u, v) == crossed else {"a": "a", "b": "b"}
        edges += [((side, u, v), (other[side], v, u)) for side in "ab"]
    nodes = dict.fromkeys(node for ends in edges for node in ends)
    number = {node: index for index, node in enumerate(nodes)}
    return undirected([(number[s], number[t]) for s, t in edges], len(number))


MAX_DEGREE = 12
"""Largest degree of a base graph; a base node of degree d becomes 2^(d-1) nodes."""


def furer_pair(base: nx.Graph) -> tuple[Graph, Graph]:
    r"""Build two non-isomorphic graphs from a simple, connected base graph $B$.

    The nodes are the pairs $(x, S)$ of a base node $x$ and a set $S$ of an even number
    of neighbours of $x$. The first graph joins $(x, S)$ and $(y, T)$ iff $xy$ is an
    edge of $B$ and $y \in S \Leftrightarrow x \in T$. The second graph negates this
    condition for one base edge $xy$.
    """
    check_simple(base)
    if not base.number_of_edges() or not nx.is_connected(base):
        size, edges = len(base), base.number_of_edges()
        told = f"the base graph has {size} nodes and {edges} edges"
        raise GraphError(f"{told} and must be connected with an edge; give another.")
    top = max(degree for _, degree in base.degree)
    if top > MAX_DEGREE:
        raise GraphError(
            f"the base graph has a node of degree {top}, which would become "
            f"{2 ** (top - 1)} nodes; give a graph of degree {MAX_DEGREE} or less."
        )
    return _furer_graph(base, None), _furer_graph(base, next(iter(base.edges)))


def _furer_graph(base: nx.Graph, negated: tuple[object, object] | None) -> Graph:
    """Build the first graph of `furer_pair` if `negated` is None, else the second."""
    members = {
        x: [
            (x, frozenset(chosen))
            for size in range(0, len(base[x]) + 1, 2)
            for chosen in combinations(base[x], size)
        ]
        for x in base
    }
    every = [node for nodes in members.values() for node in nodes]
    number = {node: index for index, node in enumerate(every)}
    edges = [
        (number[first], number[second])
        for x, y in base.edges
        for first, second in product(members[x], members[y])
        if ((y in first[1]) == (x in second[1])) == ((x, y) != negated)
    ]
    return undirected(edges, len(number))


Matrix = NDArray[np.int64]
Block = frozenset[int]

_CYCLIC_BLOCKS = ({0, 1, 4}, {0, 2, 7})
"""Adding 0, 1, ..., 12 modulo 13 to these triples gives 26 triples, which contain every
pair of 13 points once."""

_SECOND_SQUARE = ("01234", "10342", "23401", "34120", "42013")
"""A 5x5 Latin square, not equivalent to the cyclic square, (row + column) mod 5."""


def latin_squares() -> list[Matrix]:
    """Return two 5x5 Latin squares that are not equivalent, the cyclic one first."""
    cyclic = np.add.outer(np.arange(5), np.arange(5)) % 5
    second = np.array([[int(symbol) for symbol in row] for row in _SECOND_SQUARE])
    return [cyclic, second]


def triple_systems() -> list[list[Block]]:
    """Return two sets of triples of 13 points with every pair in exactly one triple."""
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
    """Return a Seidel matrix for each of the four regular two-graphs on 26 points.

    A Seidel matrix has 0 on the diagonal, -1 for adjacent nodes and +1 for other pairs.
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
    """Switch a graph: multiply row and column i of its Seidel matrix by `signs[i]`."""
    return matrix * np.outer(signs, signs)


def descendants(matrix: Matrix) -> list[Matrix]:
    """For each node, isolate the node by switching (see `switched`) and remove it."""
    found = []
    for point in range(len(matrix)):
        signs = matrix[point].copy()
        signs[point] = 1
        found.append(np.delete(np.delete(switched(matrix, signs), point, 0), point, 1))
    return found


def regular_members(matrix: Matrix, value: int) -> list[Matrix]:
    """Return every `switched(matrix, signs)` in which each row has the sum `value`."""
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
    chosen: list[int] = []
    for row in range(len(space)):
        if np.linalg.matrix_rank(space[[*chosen, row]], tol=1e-6) > len(chosen):
            chosen.append(row)
    return chosen


_POINTS = ((0,), (0, 2, 5, 25), (0, 13), (0, 1, 3, 6, 12, 13, 14, 22))
"""For each of `regular_two_graphs`: which of its `descendants` `srg25` returns."""

_SWITCHINGS = ((0,), (0, 1), (0, 1), (0, 1, 2, 5, 11))
"""For each of `regular_two_graphs`: which of its `regular_members` `srg26` returns."""


def srg16() -> list[Graph]:
    """Return the two graphs srg(16, 6, 2, 2): the 4x4 rook's and the Shrikhande graph.

    A node's neighbours form two triangles or a hexagon, which 1-WL cannot distinguish.
    So Subgraph-1-WL* on 1-hop egonets cannot distinguish the two graphs (Theorem 3).
    """
    return [rook(), shrikhande()]


def srg25() -> list[Graph]:
    """Return the 15 strongly regular graphs srg(25, 12, 5, 6), the data set SR25."""
    chosen = zip(regular_two_graphs(), _POINTS, strict=True)
    return [_graph_of_matrix(descendants(s)[i]) for s, points in chosen for i in points]


def srg26() -> list[Graph]:
    """Return the 10 strongly regular graphs srg(26, 10, 3, 4), found by Paulus."""
    # Each row has 10 entries -1 (edges) and 15 entries +1, so it sums to 5.
    members = (regular_members(matrix, 5) for matrix in regular_two_graphs())
    chosen = zip(members, _SWITCHINGS, strict=True)
    return [_graph_of_matrix(each[i]) for each, numbers in chosen for i in numbers]


def srg28() -> list[Graph]:
    """Return the 4 graphs srg(28, 12, 6, 4): the triangular and three Chang graphs.

    The triangular graph joins the pairs of 8 points that share one point. Switching it
    by a perfect matching, an 8-cycle, or a triangle and a 5-cycle gives the Chang
    graphs.
    """
    pairs = list(combinations(range(8), 2))
    joined = np.array([[len({*a} & {*b}) == 1 for b in pairs] for a in pairs])
    matrix = _seidel(joined)
    sets = [[], [(0, 1), (2, 3), (4, 5), (6, 7)], _cycle(range(8))]
    sets.append(_cycle(range(3)) + _cycle(range(3, 8)))
    signs = (np.array([-1 if p in chosen else 1 for p in pairs]) for chosen in sets)
    return [_graph_of_matrix(switched(matrix, each)) for each in signs]


def _cycle(points: range) -> list[tuple[int, int]]:
    ends = zip(points, [*points[1:], points[0]], strict=True)
    return [(min(end), max(end)) for end in ends]


def _graph_of_matrix(matrix: Matrix) -> Graph:
    edges = np.argwhere(np.triu(matrix == -1))
    return undirected([(int(u), int(v)) for u, v in edges], len(matrix))
