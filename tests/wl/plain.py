"""Slow reference implementations of the tests with dictionaries; random graphs."""

from collections import Counter
from itertools import combinations, product

import networkx as nx
from hypothesis import strategies as st


@st.composite
def graphs(draw, max_nodes=7, directed=False, labeled=False, loops=True):
    """Generate a networkx graph; with `labeled`, nodes and edges have two labels."""
    size = draw(st.integers(1, max_nodes))
    nodes = range(size)
    pairs = list(product(nodes, repeat=2) if directed else combinations(nodes, 2))
    pairs = [(u, v) for u, v in pairs if loops or u != v]
    kept = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(pair for pair, keep in zip(pairs, kept, strict=True) if keep)
    if labeled:
        for node in graph:
            graph.nodes[node]["label"] = draw(st.sampled_from("ab"))
        for edge in graph.edges:
            graph.edges[edge]["label"] = draw(st.sampled_from("xy"))
    return graph


@st.composite
def relabeled_pairs(draw, **options):
    """Generate a graph and the same graph with its nodes permuted."""
    graph = draw(graphs(**options))
    order = draw(st.permutations(list(graph)))
    other = type(graph)()
    other.add_nodes_from((order[node], graph.nodes[node]) for node in graph)
    edges = draw(st.permutations(list(graph.edges)))
    other.add_edges_from((order[u], order[v], graph.edges[u, v]) for u, v in edges)
    return graph, other


def refine(sets, start, step):
    """Refine the colours of `sets` of items until they are stable."""
    color = stable_colors(sets, start, step)
    return [Counter(color[item] for item in items) for items in sets]


def stable_colors(sets, start, step):
    """Return the stable colour of every item; the arguments are those of `refine`."""
    color = _intern({item: start(item) for items in sets for item in items})
    while True:
        signs = {item: (color[item], step(item, color)) for item in color}
        finer = _intern(signs)
        if len(set(finer.values())) == len(set(color.values())):
            return color
        color = finer


def _intern(signs):
    known = {}
    return {item: known.setdefault(sign, len(known)) for item, sign in signs.items()}


def multiset(values):
    return tuple(sorted(Counter(values).items()))


def plain_1_wl(graphs):
    sets = [[(g, v) for v in graph] for g, graph in enumerate(graphs)]

    def step(item, color):
        g, v = item
        return multiset(color[g, u] for u in graphs[g][v])

    return refine(sets, lambda item: 0, step)


def plain_k_wl(graphs, k, folklore):
    sets = [
        [(g, t) for t in product(graph, repeat=k)] for g, graph in enumerate(graphs)
    ]

    def start(item):
        g, t = item
        return tuple((u == v, graphs[g].has_edge(u, v)) for u in t for v in t)

    def step(item, color):
        g, t = item

        def near(i, u):
            return color[g, (*t[:i], u, *t[i + 1 :])]

        if folklore:
            return multiset(tuple(near(i, u) for i in range(k)) for u in graphs[g])
        return tuple(multiset(near(i, u) for u in graphs[g]) for i in range(k))

    return refine(sets, start, step)


def plain_subgraph_1_wl(graphs, num_hops, root_mark=False):
    """Subgraph-1-WL with an exact HASH: the index of an isomorphic egonet."""
    sets = [[(g, v) for v in graph] for g, graph in enumerate(graphs)]

    def step_with(known):
        def step(item, color):
            g, v = item
            ego = nx.ego_graph(graphs[g], v, radius=num_hops)
            for u in ego:
                ego.nodes[u]["label"] = (color[g, u], root_mark and u == v)
            for index, other in enumerate(known):
                if nx.vf2pp_is_isomorphic(ego, other, node_label="label"):
                    return index
            known.append(ego)
            return len(known) - 1

        return step

    color = {item: 0 for items in sets for item in items}
    while True:
        step = step_with([])
        finer = _intern({i: (color[i], step(i, color)) for i in color})
        if len(set(finer.values())) == len(set(color.values())):
            return [Counter(color[item] for item in items) for items in sets]
        color = finer


def plain_pair_test(graphs, test, num_hops=None, marked=True, readout="vs"):
    """Run a subgraph WL test (`gnnak.wl.pair_tests`) with dictionaries."""
    balls = [
        {u: set(graph) if num_hops is None else ball(graph, u, num_hops) for u in graph}
        for graph in graphs
    ]
    sets = [
        [(g, u, v) for u in graph for v in balls[g][u]]
        for g, graph in enumerate(graphs)
    ]

    def start(item):
        g, u, v = item
        return graphs[g].nodes[v].get("label"), marked and u == v

    def step(item, color):
        g, u, v = item
        graph, inside = graphs[g], balls[g]

        def edge(a, b):
            return repr(graph.edges[a, b].get("label")) if graph.has_edge(a, b) else ""

        if test in ("2-lfwl", "2-slfwl"):
            near = set(graph[v]) | (set(graph[u]) if test == "2-slfwl" else set())
            return multiset(
                (edge(u, w), edge(w, v), color[g, u, w], color[g, w, v])
                for w in near
                if w in inside[u] and v in inside[w]
            )
        found = [
            multiset((edge(w, v), color[g, u, w]) for w in graph[v] if w in inside[u])
        ]
        if test == "pswl":
            found.append(color[g, v, v])
        if test == "gswl":
            found.append(multiset(color[g, w, v] for w in graph if v in inside[w]))
        if test == "sswl":
            across = (w for w in graph[u] if v in inside[w])
            found.append(multiset((edge(w, u), color[g, w, v]) for w in across))
        return tuple(found)

    color = stable_colors(sets, start, step)
    if test in ("2-lfwl", "2-slfwl"):
        return [Counter(color[item] for item in items) for items in sets]
    first = 1 if readout == "vs" else 2
    return [
        multiset(
            multiset(color[item] for item in items if item[first] == node)
            for node in graph
        )
        for graph, items in zip(graphs, sets, strict=True)
    ]


def ball(graph, root, num_hops):
    return set(nx.single_source_shortest_path_length(graph, root, cutoff=num_hops))


def classes(marks):
    """Number equal entries of a list by first appearance."""
    first = [marks.index(mark) for mark in marks]
    numbers = {place: number for number, place in enumerate(sorted(set(first)))}
    return [numbers[place] for place in first]


def finer(fine, coarse):
    """Return whether each class of `fine` is contained in one class of `coarse`."""
    return len(set(zip(fine, coarse, strict=True))) == len(set(fine))
