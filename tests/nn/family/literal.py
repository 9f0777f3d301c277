"""The equations of the family of subgraph GNNs, written out in Python loops.

`h[u, v]` is the state of node v in the subgraph rooted at u, a vector.
"""

import torch
from torch import Tensor

from tests.nn.literal import applied, distances


class World:
    """A graph, its egonets or whole graphs, and sums over neighbours."""

    def __init__(self, data, num_hops=None):
        self.n, self.x = data.num_nodes, data.x
        self.edges = [
            (a, b, data.edge_attr[i])
            for i, (a, b) in enumerate(data.edge_index.t().tolist())
        ]
        hops = self.n if num_hops is None else num_hops
        self.hop = {}
        for u in range(self.n):
            far = distances(data.edge_index, u, hops)
            for v in range(self.n) if num_hops is None else sorted(far):
                self.hop[u, v] = far.get(v, -1)

    def inside_sum(self, h, u, v):
        """Return the sum over v' in N(v) of ReLU(h(u, v') + e)."""
        near = [(a, e) for a, b, e in self.edges if b == v and (u, a) in self.hop]
        return sum(((h[u, a] + e).clamp(min=0) for a, e in near), 0 * h[u, v])

    def across_sum(self, h, u, v):
        """Return the sum over u' in N(u) of ReLU(h(u', v) + e)."""
        near = [(a, e) for a, b, e in self.edges if b == u and (a, v) in self.hop]
        return sum(((h[a, v] + e).clamp(min=0) for a, e in near), 0 * h[u, v])

    def graph_sum(self, x, v):
        """Return the sum over v' in N(v) of ReLU(x(v') + e)."""
        near = [(a, e) for a, b, e in self.edges if b == v]
        return sum(((x[a] + e).clamp(min=0) for a, e in near), 0 * x[v])

    def subgraph(self, h, u):
        return [h[u, v] for w, v in self.hop if w == u]

    def context(self, h, v):
        return [h[u, v] for u, w in self.hop if w == v]


def gine(conv, state, total):
    """MLP((1 + eps) state + total): GINE after its messages are summed."""
    return applied(conv.gnn.nn, (1 + conv.gnn.eps) * state + total)


def pooled(values, reduce):
    return sum(values) / (len(values) if reduce == "mean" else 1)


def inside_layer(layer, world, h):
    """SWL: h(u, v) <- ReLU BN GINE_inside."""
    return {
        (u, v): applied(
            layer.norm, gine(layer.conv, h[u, v], world.inside_sum(h, u, v))
        ).clamp(min=0)
        for u, v in h
    }


def shared(part, world, h):
    """BN GINE on the graph, on POOL_w h(w, v), for every node v."""
    x = {v: pooled(world.context(h, v), part.reduce) for v in range(world.n)}
    return {
        v: applied(part.norm, gine(part.conv, x[v], world.graph_sum(x, v))) for v in x
    }


def dss_layer(layer, world, h):
    own, common = {}, shared(layer.shared, world, h)
    for u, v in h:
        message = gine(layer.conv, h[u, v], world.inside_sum(h, u, v))
        own[u, v] = (applied(layer.norm, message) + common[v]).clamp(min=0)
    return own


def sun_layer(layer, world, h):
    new, common = {}, shared(layer.shared, world, h)
    of_roots = shared(layer.root_shared, world, h)
    for u, v in h:
        inside, total = world.inside_sum(h, u, v), sum(world.subgraph(h, u))
        if u != v:
            terms = [
                applied(layer.own, h[v, v]),
                applied(layer.root, h[u, u]),
                applied(layer.itself, h[u, v]),
                applied(layer.pooled, total),
                applied(layer.norm, gine(layer.conv, h[u, v], inside)),
                common[v],
            ]
        else:
            terms = [
                applied(layer.root_own, h[v, v]),
                applied(layer.root_pooled, total),
                applied(layer.root_norm, gine(layer.root_conv, h[u, v], inside)),
                of_roots[v],
            ]
        new[u, v] = sum(terms).clamp(min=0)
    return new


def sswl_layer(layer, world, h):
    new = {}
    for u, v in h:
        total = gine(layer.conv, h[u, v], world.inside_sum(h, u, v))
        total = total + gine(layer.across, h[u, v], world.across_sum(h, u, v))
        if hasattr(layer, "mlp"):  # SSWL+
            total = total + applied(layer.mlp, (1 + layer.eps) * h[u, v] + h[v, v])
        new[u, v] = applied(layer.norm, total).clamp(min=0)
    return new


def l2fgnn_layer(layer, world, h):
    def sent(one, two, e):
        mapped = applied(layer.linear, h[one]) + applied(layer.pair_linear, h[two])
        return (mapped + e).clamp(min=0)

    new = {}
    for u, v in h:
        sums = [0 * h[u, v], 0 * h[u, v], sum(world.context(h, v))]
        for w, end, e in world.edges:
            if {(u, w), (w, v)} <= set(h):
                if end == v:
                    sums[0] = sums[0] + sent((u, w), (w, v), e)
                if end == u:
                    sums[1] = sums[1] + sent((w, v), (u, w), e)
        terms = zip(layer.mlps, layer.eps, sums[: len(layer.mlps)], strict=True)
        total = sum(applied(mlp, (1 + eps) * h[u, v] + s) for mlp, eps, s in terms)
        new[u, v] = applied(layer.norm, total).clamp(min=0)
    return new


def id_layer(layer, world, h):
    new = {}
    for u, v in h:
        inside = world.inside_sum(h, u, v)
        total = gine(layer.conv, h[u, v], inside)
        if u == v:
            total = total + gine(layer.root_conv, h[u, v], inside)
        new[u, v] = applied(layer.norm, total).clamp(min=0)
    return new


def graph_layer(layer, world, x):
    return {
        v: applied(layer.norm, gine(layer.conv, x[v], world.graph_sum(x, v))).clamp(
            min=0
        )
        for v in x
    }


def khop_layer(layer, world, x):
    """One sweep from ring k to the root, for every root u."""
    new, k = {}, layer.num_hops
    for u in x:
        rings = {
            r: [v for w, v in world.hop if w == u and world.hop[u, v] == r]
            for r in range(k + 1)
        }

        def near(v, ring, values):
            found = [values[a] for a, b, _ in world.edges if b == v and a in ring]
            return sum(found, torch.zeros_like(x[v]))

        outer = {v: applied(layer.outermost, x[v]) for v in rings[k]}
        b = {
            v: applied(layer.from_nodes[k], x[v]) + near(v, rings[k], outer)
            for v in rings[k]
        }
        for r in range(k - 1, -1, -1):
            sent = {v: applied(layer.inwards[r], b[v]) for v in b}
            a = {
                v: applied(layer.from_nodes[r], x[v]) + near(v, rings[r + 1], sent)
                for v in rings[r]
            }
            if r:
                sent = {v: applied(layer.within_hop[r - 1], a[v]) for v in a}
                b = {
                    v: applied(layer.keep[r - 1], a[v]) + near(v, rings[r], sent)
                    for v in rings[r]
                }
        new[u] = applied(layer.norm, a[u]).clamp(min=0)
    return new


def ego_layer(layer, world, x):
    """W times the mean over egonets of (A_u^2 x)(v), then a conv on the graph."""
    seen = {v: [] for v in x}
    for u in x:
        nodes = [v for w, v in world.hop if w == u]
        matrix = torch.eye(len(nodes), dtype=torch.double)
        for a, b, _ in world.edges:
            if a in nodes and b in nodes:
                matrix[nodes.index(b), nodes.index(a)] += 1
        scale = torch.diag(matrix.sum(dim=1) ** -0.5)
        normal = scale @ matrix @ scale
        after = normal @ normal @ torch.stack([x[v] for v in nodes])
        for i, v in enumerate(nodes):
            seen[v].append(after[i])
    mean = {v: applied(layer.linear, pooled(seen[v], "mean")) for v in x}
    return graph_layer(layer.after, world, mean)


def table(rows: dict, width: int) -> Tensor:
    vectors = [rows[v] for v in sorted(rows)]
    return torch.stack(vectors) if vectors else torch.zeros(0, width).double()
