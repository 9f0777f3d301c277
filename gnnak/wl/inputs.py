"""`GraphUnion`: coloured graphs for WL tests, from networkx, PyG, graph6 and files."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

from gnnak.datasets.own import as_rows
from gnnak.errors import FileFormatError, GraphError, kind_of
from gnnak.graphs import from_pyg, parse_graph6
from gnnak.graphs.adjacency import check_edge_index, has_reverse
from gnnak.graphs.ragged import counts_of, pointers, ragged_ranges
from gnnak.graphs.readers.rows import GraphRows, check_any
from gnnak.subgraphs.induce import find_sorted
from gnnak.wl.interning import rank, rank_multisets, rank_pairs


@dataclass(frozen=True, eq=False)
class GraphUnion:
    """A disjoint union of graphs with coloured nodes and pairs, the input of WL tests.

    Colours are numbers, equal for equal labels in all graphs of the union. An arc is a
    directed edge. Every axis may be empty.
    """

    num_graphs: int
    """Number g of graphs, including graphs without nodes."""
    graph: Tensor
    """[n]: the graph, 0 to g - 1, of each node, in ascending order."""
    node_color: Tensor
    """[n]: the initial colour of each node."""
    edge_index: Tensor
    """[2, e]: all pairs (u, v) with an arc u -> v or v -> u, once in each order."""
    edge_color: Tensor
    """[e]: the colour of each pair (u, v), from the labels of u -> v and v -> u."""
    forward: Tensor
    """[e]: True if there is an arc u -> v; False if there are only arcs v -> u."""

    @property
    def num_nodes(self) -> int:
        return self.graph.numel()

    @property
    def sizes(self) -> Tensor:
        """Number of nodes of each of the g graphs, [g]."""
        return counts_of(self.graph, self.num_graphs)

    def select(self, graphs: Tensor) -> GraphUnion:
        """Return a union of the graphs with the indices `graphs`, which may repeat."""
        nodes, place = _members(self.graph, self.num_graphs, graphs)
        home = self.graph[self.edge_index[1]]
        order = torch.argsort(home, stable=True)
        entries, edge_place = _members(home[order], self.num_graphs, graphs)
        edges = order[entries]
        first = torch.searchsorted(self.graph, torch.arange(self.num_graphs))
        begin = torch.searchsorted(place, torch.arange(graphs.numel()))
        shift = (begin - first[graphs])[edge_place]
        return GraphUnion(
            num_graphs=graphs.numel(),
            graph=place,
            node_color=self.node_color[nodes],
            edge_index=self.edge_index[:, edges] + shift,
            edge_color=self.edge_color[edges],
            forward=self.forward[edges],
        )


def _members(home: Tensor, size: int, graphs: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes (or edges) of `graphs`, and which of `graphs` each belongs to."""
    count = counts_of(home, size)
    place, entry = ragged_ranges(pointers(count)[:-1][graphs], count[graphs])
    return entry, place


def union_of_arcs(
    sizes: Tensor, arcs: Tensor, node_label: Tensor, arc_label: Tensor
) -> GraphUnion:
    """Build a `GraphUnion` from arcs, [2, arcs], and labels of the arcs and nodes."""
    num_nodes = int(sizes.sum())
    source, target = arcs
    size = max(num_nodes, 1)
    key = source * size + target
    back = target * size + source
    pairs = torch.unique(torch.cat([key, back]))
    ends = torch.stack([pairs // size, pairs % size])
    row = find_sorted(pairs, key)[0]
    labels = rank_multisets(row, arc_label, pairs.numel())
    mirror = find_sorted(pairs, ends[1] * size + ends[0])[0]
    forward = counts_of(row, pairs.numel()) > 0
    graph = torch.arange(sizes.numel()).repeat_interleave(sizes)
    return GraphUnion(
        num_graphs=sizes.numel(),
        graph=graph,
        node_color=rank(node_label),
        edge_index=ends,
        edge_color=rank_pairs(labels, labels[mirror]),
        forward=forward,
    )


Graph: TypeAlias = nx.Graph | Data | tuple[Tensor, int] | str | bytes | Path
"""A networkx graph, PyG data, `(edge_index, num_nodes)`, a graph6 string, or the path
of a file with one graph. A string with a dot or slash is a path, never graph6."""
OF_SMILES = "for a SMILES string, give torch_geometric.utils.from_smiles(text)."


class LabeledGraph(NamedTuple):
    """One graph as a list of arcs (directed edges), with optional labels."""

    edge_index: Tensor
    """[2, e]: the arcs; an undirected edge is two arcs."""
    num_nodes: int
    node_labels: Sequence[Hashable] | None
    edge_labels: Sequence[Hashable] | None


def graphs_of(rows: GraphRows) -> list[Data]:
    """Return the graphs of a file; drop an `x` of zeros, which the npz reader adds."""
    graphs = []
    for graph in rows.store:
        x = graph.x
        if x is not None and x.size(1) == 1 and not x.any():
            x = None
        size = graph.num_nodes
        graphs.append(Data(x, graph.edge_index, graph.edge_attr, num_nodes=size))
    return graphs


def loaded(graph: Graph) -> Graph:
    """Return the graph; read it first if it is a path."""
    if isinstance(graph, str) and ("." in graph or "/" in graph):
        graph = Path(graph)
    if not isinstance(graph, Path):
        return graph
    if not graph.exists():
        told = f"there is no file or folder {graph}; check the path; {OF_SMILES}"
        raise FileFormatError(told)
    rows = as_rows(graph)
    check_any(rows)
    if rows.num_rows != 1:
        raise GraphError(
            f"{graph} holds {rows.num_rows} graphs; give a file of one graph, or run "
            "gnnak wl compare, which reads all graphs of a file."
        )
    return graphs_of(rows)[0]


def read_graph(graph: Graph) -> LabeledGraph:
    """Convert a graph; labels are networkx's `label`, or PyG's `x` and `edge_attr`."""
    graph = loaded(graph)
    if isinstance(graph, nx.Graph):
        return _from_networkx(graph)
    if isinstance(graph, Data):
        return _from_data(graph)
    if isinstance(graph, str | bytes):
        try:
            store = parse_graph6(graph, f"{graph!r} as graph6")
        except FileFormatError as error:
            told = f"{str(error).rstrip('.')}; {OF_SMILES}"
            raise FileFormatError(told) from error
        if len(store) != 1:
            raise GraphError(
                f"a graph6 string holds {len(store)} graphs; give one string a graph."
            )
        return LabeledGraph(store.edge_index, int(store.num_nodes), None, None)
    if isinstance(graph, tuple) and len(graph) == 2:
        edge_index, num_nodes = graph
        check_edge_index(edge_index, num_nodes)
        return LabeledGraph(edge_index.cpu(), num_nodes, None, None)
    raise GraphError(
        f"a graph is {kind_of(graph)}; give a networkx graph, PyG data, "
        "(edge_index, num_nodes), a graph6 string or the path of a file."
    )


def _from_networkx(graph: nx.Graph) -> LabeledGraph:
    number = {node: index for index, node in enumerate(graph)}
    nodes = [label for _, label in graph.nodes(data="label")]
    ends, edges = [], []
    for u, v, label in graph.edges(data="label"):
        ends.append((number[u], number[v]))
        edges.append(label)
    arcs = torch.tensor(ends, dtype=torch.long).view(-1, 2).T
    if not graph.is_directed():
        proper = (arcs[0] != arcs[1]).nonzero().flatten()
        arcs = torch.cat([arcs, arcs[:, proper].flip(0)], dim=1)
        edges += [edges[index] for index in proper.tolist()]
    return LabeledGraph(arcs, len(number), _known(nodes), _known(edges))


def _known(labels: list[Any]) -> list[Hashable] | None:
    return None if all(label is None for label in labels) else labels


def _from_data(data: Data) -> LabeledGraph:
    bare = Data(data.x, data.edge_index, data.edge_attr)
    if "num_nodes" in data:
        bare.num_nodes = data.num_nodes
    store = from_pyg([bare]).to("cpu")
    return LabeledGraph(
        store.edge_index,
        int(store.num_nodes),
        _rows("x", store.x),
        _rows("edge_attr", store.edge_attr),
    )


def _rows(name: str, value: Tensor | None) -> list[Hashable] | None:
    if value is None:
        return None
    if value.is_floating_point() and bool(value.isnan().any()):
        raise GraphError(f"{name} holds NaN, which equals no label; replace it.")
    return [tuple(row) for row in value.flatten(1).tolist()]


def read_union(
    graphs: Iterable[Graph], labels: bool = True, undirected: bool | None = None
) -> GraphUnion:
    """Convert graphs of any types to one union; see `Options` for the arguments.

    Call this in a helper of a public function: warnings then show the user's line.
    """
    single = isinstance(graphs, nx.Graph | Data | str | bytes)
    if single or not isinstance(graphs, Iterable):
        raise GraphError(
            f"graphs is {kind_of(graphs)}; give a list of graphs, such as "
            "['a.g6', 'b.g6']; gnnak wl compare reads all graphs of a file."
        )
    graphs = [loaded(graph) for graph in graphs]
    read = [read_graph(graph) for graph in graphs]
    sizes = torch.tensor([graph.num_nodes for graph in read], dtype=torch.long)
    empty = torch.zeros(2, 0, dtype=torch.long)
    arcs = torch.cat([empty, *(graph.edge_index for graph in read)], dim=1)
    counts = torch.tensor([graph.edge_index.size(1) for graph in read]).long()
    arcs = arcs + pointers(sizes)[:-1].repeat_interleave(counts)
    node_label = torch.zeros(int(sizes.sum()), dtype=torch.long)
    arc_label = torch.zeros(arcs.size(1), dtype=torch.long)
    if labels:
        _intern(node_label, sizes, [graph.node_labels for graph in read])
        _intern(arc_label, counts, [graph.edge_labels for graph in read])
    if undirected:
        there = has_reverse(arcs, node_label.numel())
        arcs = torch.cat([arcs, arcs[:, ~there].flip(0)], dim=1)
        arc_label = torch.cat([arc_label, arc_label[~there]])
    union = union_of_arcs(sizes, arcs, node_label, arc_label)
    if undirected is None:
        wrong = [i for i in _one_way(union) if isinstance(graphs[i], tuple | Data)]
        if wrong:
            named = ", ".join(map(str, wrong[:3])) + (", ..." if wrong[3:] else "")
            warnings.warn(
                f"every edge of {'graph' if len(wrong) == 1 else 'graphs'} {named} "
                "comes in one direction only, and is taken as directed; give "
                "undirected=True (--undirected) if edges have no direction, else "
                "undirected=False (--directed).",
                stacklevel=4,
            )
    return union


def _one_way(union: GraphUnion) -> list[int]:
    """Return indices of graphs with edges in one direction only; ignore self loops."""
    arcs = union.edge_index[:, union.forward]
    arcs = arcs[:, arcs[0] != arcs[1]]
    home, there = union.graph[arcs[0]], has_reverse(arcs, union.num_nodes)
    all_arcs = counts_of(home, union.num_graphs)
    both_ways = counts_of(home[there], union.num_graphs)
    return ((all_arcs > 0) & (both_ways == 0)).nonzero().flatten().tolist()


def _intern(
    out: Tensor, counts: Tensor, labels: list[Sequence[Hashable] | None]
) -> None:
    """Write a number per label to `out`: 0 for None, 1, 2, ... for distinct labels."""
    known: dict[Hashable, int] = {None: 0}
    ends = pointers(counts).tolist()
    for index, given in enumerate(labels):
        if given is None:
            continue
        for label in given:
            _check_label(index, label)
        numbers = [known.setdefault(label, len(known)) for label in given]
        out[ends[index] : ends[index + 1]] = torch.tensor(numbers, dtype=torch.long)


def _check_label(index: int, label: Hashable) -> None:
    if isinstance(label, tuple):
        for entry in label:
            _check_label(index, entry)
    elif not isinstance(label, int | float | str | bytes | None):
        raise GraphError(
            f"graph {index} has a label of type {type(label).__name__}; use numbers, "
            "strings, bytes, None or tuples of these."
        )
    elif label != label:
        raise GraphError(
            f"graph {index} has NaN in a label, which equals no label; replace it."
        )
