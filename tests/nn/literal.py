"""One GNN-AK(+) layer written out in Python loops, from the paper's section 4."""

import torch
from torch import Tensor, nn

from gnnak import GNNAK
from gnnak.nn.norm import NoNorm


def applied(module: nn.Module, vector: Tensor) -> Tensor:
    """Apply a stack of Linear, BatchNorm (in evaluation) and ReLU to one vector."""
    if isinstance(module, nn.Linear):
        out = module.weight @ vector
        return out if module.bias is None else out + module.bias
    if isinstance(module, nn.BatchNorm1d):
        spread = (module.running_var + module.eps).sqrt()
        return (vector - module.running_mean) / spread * module.weight + module.bias
    if isinstance(module, nn.ReLU):
        return vector.clamp(min=0)
    assert isinstance(module, nn.Sequential | nn.Identity | NoNorm)
    for part in module.children():
        vector = applied(part, vector)
    return vector


def distances(edge_index: Tensor, root: int, num_hops: int) -> dict[int, int]:
    """Nodes with a path to the root of at most `num_hops` edges, and its length."""
    far, frontier = {root: 0}, [root]
    for step in range(1, num_hops + 1):
        near = {u for u, v in edge_index.t().tolist() if v in frontier}
        frontier = sorted(near - far.keys())
        far.update(dict.fromkeys(frontier, step))
    return far


def counted(edge_index: Tensor, size: int, u: int, v: int, most: int) -> Tensor:
    """How many nodes w have each pair of distances (u, w), (v, w); see the docstring of
    `distance_counts`."""
    near = [distances(edge_index, end, most) for end in (u, v)]
    counts = torch.zeros(most + 2, most + 2, dtype=torch.double)
    for w in range(size):
        counts[near[0].get(w, most + 1), near[1].get(w, most + 1)] += 1
    return counts.flatten()[:-1]


def pair_values(name: str, edge_index: Tensor, size: int, u: int, v: int) -> Tensor:
    """The structural encoding of root u and node v, from dense matrices and loops."""
    if name == "distance-counts":
        return counted(edge_index, size, u, v, 3)
    dense = torch.zeros(size, size, dtype=torch.double)
    for source, target in edge_index.t().tolist():
        dense[target, source] += 1
    if name == "rrwp":
        walk = dense / dense.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.stack(
            [torch.linalg.matrix_power(walk, k)[u, v] for k in range(21)]
        )
    dense = (dense + dense.t()) / 2
    inverse = torch.linalg.pinv(torch.diag(dense.sum(dim=1)) - dense)
    return (inverse[u, u] + inverse[v, v] - 2 * inverse[u, v])[None]


def d(layer: GNNAK, edge_index, size, root, v, hop) -> Tensor:
    """The encoding d of node v in the subgraph of the root: a sum of terms."""
    terms = []
    if layer.hop_table is not None:
        terms.append(layer.hop_table.weight[hop])
    if layer.pair_linears is not None:
        for name, linear in layer.pair_linears.linears.items():
            values = pair_values(name, edge_index, size, root, v)
            terms.append(linear.weight @ values)
    return sum(terms)


def embeddings(layer: GNNAK, x, edge_index, edge_attr, root, far) -> dict[int, Tensor]:
    """Emb(i | Sub[root]) of every node i: the base GNN on one rooted subgraph."""
    at = {v: i for i, v in enumerate(sorted(far))}
    ends = edge_index.t().tolist()
    edges = [i for i, (u, v) in enumerate(ends) if u in far and v in far]
    pairs = [[at[ends[i][row]] for i in edges] for row in (0, 1)]
    rows = []
    for v in sorted(far):
        state = x[v]
        if layer.options.hop_channels:
            hop = d(layer, edge_index, x.size(0), root, v, far[v])
            if layer.hop_linear is not None:
                state = state + applied(layer.hop_linear, hop)
            else:
                state = torch.cat([state, hop])
        rows.append(state)
    local = torch.tensor(pairs, dtype=torch.long).reshape(2, -1)
    states = layer.gnn(torch.stack(rows), local, edge_attr[edges])
    return {v: applied(layer.project, states[i]) for v, i in at.items()}


def by_the_equations(
    layer: GNNAK, x, edge_index, edge_attr, num_hops, roots=None
) -> Tensor:
    """New states of all nodes, or of `roots`, node by node, subgraph by subgraph."""
    roots = range(x.size(0)) if roots is None else roots
    emb, hops = {}, {}
    for root in roots:
        far = distances(edge_index, root, num_hops)
        states = embeddings(layer, x, edge_index, edge_attr, root, far)
        for v, state in states.items():
            emb[v, root], hops[v, root] = state, far[v]

    def seen(name, pair):
        state = emb[pair]
        if name in layer.transforms:
            state = applied(layer.transforms[name], state)
        if name in layer.gates:
            hop = d(layer, edge_index, x.size(0), pair[1], pair[0], hops[pair])
            state = state * torch.sigmoid(applied(layer.gates[name].linear, hop))
        return state

    out = []
    for v in roots:
        own = {
            "centroid": [(v, v)],
            "subgraph": [pair for pair in emb if pair[1] == v],
            "context": [pair for pair in emb if pair[0] == v],
        }
        encodings = []
        for name in layer.encodings:
            values = [seen(name, pair) for pair in own[name]]
            mean = layer.reduce == "mean"
            encodings.append(sum(values) / (len(values) if mean else 1))
        fused = getattr(layer.fuse, "mlp", None)
        out.append(applied(fused, torch.cat(encodings)) if fused else sum(encodings))
    return torch.stack(out) if out else x.new_zeros(0, layer.out_channels)
