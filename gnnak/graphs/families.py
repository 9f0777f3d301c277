"""Families of graphs that Weisfeiler-Leman (WL) tests can hardly distinguish."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import gcd

import networkx as nx

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


_SRG25 = r"""
X~_smKWQq|T\HkWBDijZ{PYxPpTWEg{rMBfNKlxCz@[xRXR}KiW
X~aKeEbQqsTxHkXJDMjQ{Ldu\_Wm\?trWwiuPYtqib\XvWD~Cgs
X~KxEWQ`[hBqTyiajDdNpPr_kxJKnbV@xHrear]KvmAWBlx{lBK
X`NwXKVeKb\dSj[KTQsTyUazuBQUclatMbH{W\wjQYuZj@Up{YQ
X~~EHk^J|GiXIZcjhb{iWQhddAx`q{Sb}KiWWfAlEEJicKvETK^
XFZ[LTAqZfDsiXnFUsQWDKSKNxw`]~@v`fKXuqcbthOympS_dU}
XlIXon}a`_LgnFAn]BkYZRE`RNLEseu`xfSipiVjROuWMwpD]YJ
XFZ[LTAqZfTKlhR@eIW^vwNpfHmuYBtdFTsccE]`xW`_Sk~jcBV
XC]v]DTgRHwHvbUsCogpZaDlo^dfHjZHQ|\P}KBpVssAm\hpm]C
XCpa|Wz[MitykDLQ]{Oli`bf@wzCF]wF`kyHQTtvsyCB\XUiGVy
Xrye`pKAyjF[qul]myCkMFnEat?A[i`bnwGNHejkY`vLcuYpzHa
XlIXon}a`_Lg{FbRhbAeXus|fUeLRjRRR@sPFNkLipJTRiT?}p{
XltmVKM`X~KS{F_jv_lEbtKpguPlhsrhGph\Cv_qIJRjOBvBE|F
XXVljHr@qDb}bR_jwIm{BiWriWlgs?usxKxYc[Mxoj\ZDsq[Q{q
XipxGS\YUePoFNCvqMD]tkBnFkbvOUsjDtTkGljtRITUsMHwMpF
"""
_SRG26 = r"""
YwF[@WDYaFHIrAahIoj`RSNAzHLaG`_DYUoIH{GS@MUdEYK?rgxEece?
YwFX@ZyLQAHKKpa@tHB_uSBi?TpSbS`qUUAk`qoQKg[hpIS?~@XEiLE?
YwCepV{KqMUBLOb_iE[R?TaeEP@WirQCIOE\_R{A?`}h@k[@]LHFJ@U?
YlthgsL`mEkLkLBI?q_EU_XH?qT?qQ_ZGgFqd?}US@xKgBqKgRqESHx?
YluPf?G_}KkdQaAY_YoKQ`HhDoQtHlT_olDpcO]``y?k?RjLwr?FChJ?
YiMHVoOX@BoXC\FdrfDCdOmRIcjl?@PCiFaYs?UOYORsdgYPD`qCbKe_
YiMMgGReHDOBzUFPKAlA?OYwuHsSYpV`eCo{JJ?NbI_j?BUPpGTCVd@_
Ys|GhvQh_wGGJ?GwsHb?q_KgGnIUgwikPDhxCam``wiKssB`fX?s@sS_
YFZ[LTAqZfDsOwR?eI^_KCJYWoHHhCIQSiHC_d]L@En@GrgD_hhOEC|_
Y?^KltQHbFwHjAVDCGn?_?MyGeHhDBT@jD_yc_}T`ikBIBc@dHpSBcd_
"""
_SRG28 = r"""
[~~~}A`c[Ron_~WWIIIQRPP\BBx`b@PQccdJGgpwopeAadTCchfBBEZ@PQjWKKXn
[J\zy?`CWR_n?~FfyIEQPpPNBA|``DPOeccJgg`zNKXqalSccxdbBUXPPYiZrpe?
[J\{DwaCgT_v?NFVyQESPp`N?AyW]|VOafcHgW`ZHK\qylCcSxD[KhEpHYyRtpaA
[`Kx~|_SIPgfOngGQAKOR`@]ABw[[~RQbddHFFM`LM\YidEssh@KkxAxXQwPpraa
"""
"""Strongly regular graphs, one per line in the graph6 format; each list is complete."""


def srg16() -> list[Graph]:
    """Return the two graphs srg(16, 6, 2, 2): the 4x4 rook's and the Shrikhande graph.

    A node's neighbours form two triangles or a hexagon, which 1-WL cannot distinguish.
    So Subgraph-1-WL* on 1-hop egonets cannot distinguish the two graphs (Theorem 3).
    """
    return [rook(), shrikhande()]


def srg25() -> list[Graph]:
    """Return the 15 strongly regular graphs srg(25, 12, 5, 6), the data set SR25."""
    return _parsed(_SRG25)


def srg26() -> list[Graph]:
    """Return the 10 strongly regular graphs srg(26, 10, 3, 4), found by Paulus."""
    return _parsed(_SRG26)


def srg28() -> list[Graph]:
    """Return the 4 graphs srg(28, 12, 6, 4): the triangular and three Chang graphs.

    The triangular graph, which comes first, joins the pairs of 8 points that share one
    point.
    """
    return _parsed(_SRG28)


def _parsed(lines: str) -> list[Graph]:
    graphs = [nx.from_graph6_bytes(line.encode()) for line in lines.split()]
    return [undirected(sorted(graph.edges), len(graph)) for graph in graphs]
