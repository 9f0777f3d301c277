"""Every member of the family, small, in float64, with its literal transcription."""

from functools import cache

import torch
from torch import nn

from gnnak.nn.base.convs import gine
from gnnak.nn.family import (
    KHopLayer,
    L2FGNNLayer,
    SSWLLayer,
    SSWLPlusLayer,
    ds_gnn,
    dss_gnn,
    ego_gnn,
    id_fast_gnn,
    id_gnn,
    khop_gnn,
    l2fgnn,
    nested_gnn,
    sswl_gnn,
    sun_gnn,
)
from gnnak.nn.family.gnn import PairEncoder
from tests.nn.family import literal
from tests.nn.literal import applied

WIDTH, LAYERS, HOPS = 4, 2, 2


def convs(count):
    return [tuple(gine(WIDTH) for _ in range(count)) for _ in range(LAYERS)]


def singles():
    return [conv for (conv,) in convs(1)]


def marked():
    return PairEncoder(("mark",), WIDTH)


def near():
    return PairEncoder(("distance",), WIDTH, max_distance=2)


BUILDERS = {
    "nested": lambda: nested_gnn(near(), singles(), WIDTH),
    "nested at the root": lambda: nested_gnn(near(), singles(), WIDTH, reduce=None),
    "ds": lambda: ds_gnn(marked(), singles(), WIDTH),
    "dss": lambda: dss_gnn(marked(), convs(2), WIDTH),
    "sun": lambda: sun_gnn(marked(), convs(4), WIDTH),
    "sswl": lambda: sswl_gnn(near(), [SSWLLayer(*c, WIDTH) for c in convs(2)], WIDTH),
    "sswl+": lambda: sswl_gnn(
        near(), [SSWLPlusLayer(*c, WIDTH) for c in convs(2)], WIDTH
    ),
    "sswl+ SV": lambda: sswl_gnn(
        near(), [SSWLPlusLayer(*c, WIDTH) for c in convs(2)], WIDTH, "mean", "SV"
    ),
    "l2fgnn": lambda: l2fgnn(
        near(), [L2FGNNLayer(WIDTH) for _ in range(LAYERS)], WIDTH
    ),
    "l2fgnn without norm": lambda: l2fgnn(
        near(),
        [L2FGNNLayer(WIDTH, norm="none") for _ in range(LAYERS)],
        WIDTH,
        norm="none",
    ),
    "l2fgnn without context": lambda: l2fgnn(
        near(), [L2FGNNLayer(WIDTH, context=False) for _ in range(LAYERS)], WIDTH
    ),
    "id": lambda: id_gnn(PairEncoder((), WIDTH), convs(2), WIDTH),
    "id-fast": lambda: id_fast_gnn(singles(), WIDTH, num_steps=3),
    "khop": lambda: khop_gnn([KHopLayer(WIDTH, HOPS) for _ in range(LAYERS)], WIDTH),
    "ego": lambda: ego_gnn(singles(), WIDTH),
}
LITERAL_LAYERS = {
    "nested": literal.inside_layer,
    "nested at the root": literal.inside_layer,
    "ds": literal.inside_layer,
    "dss": literal.dss_layer,
    "sun": literal.sun_layer,
    "sswl": literal.sswl_layer,
    "sswl+": literal.sswl_layer,
    "sswl+ SV": literal.sswl_layer,
    "l2fgnn": literal.l2fgnn_layer,
    "l2fgnn without norm": literal.l2fgnn_layer,
    "l2fgnn without context": literal.l2fgnn_layer,
    "id": literal.id_layer,
    "id-fast": literal.graph_layer,
    "khop": literal.khop_layer,
    "ego": literal.ego_layer,
}
ON_NODES = ("id-fast", "khop", "ego")
"""Members whose layers compute states of nodes, not of node copies."""


@cache
def member(name):
    """A member with random weights and random running statistics, in evaluation."""
    torch.manual_seed(0)
    gnn = BUILDERS[name]().double()
    for part in gnn.modules():
        if isinstance(part, nn.BatchNorm1d):
            nn.init.normal_(part.running_mean)
            nn.init.uniform_(part.running_var, 0.5, 2)
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    for key, weight in gnn.named_parameters():
        if key.endswith("eps"):
            nn.init.normal_(weight)
    return gnn.eval()


def by_the_equations(name, gnn, world):
    """The node states of a member, by its literal transcription."""
    if name in ON_NODES:
        h = literal_nodes(name, gnn, world)
    else:
        h = literal_pairs(gnn.start, world)
    states = [h]
    for layer in gnn.layers:
        states.append(LITERAL_LAYERS[name](layer, world, states[-1]))
    return literal.table(literal_readout(name, gnn.readout, world, states), 0)


def literal_pairs(start, world):
    """x(v), with the embedding of the root or of the distance added."""
    h = {}
    for (u, v), hop in world.hop.items():
        h[u, v] = world.x[v]
        if "mark" in start.parts:
            h[u, v] = h[u, v] + start.parts["mark"].weight[int(u == v)]
        if "distance" in start.parts:
            row = 2 if hop < 0 else min(hop, 2)
            h[u, v] = h[u, v] + start.parts["distance"].weight[row]
    return h


def literal_nodes(name, gnn, world):
    x = {v: world.x[v] for v in range(world.n)}
    if name != "id-fast":
        return x
    matrix = torch.eye(world.n, dtype=torch.double)
    for a, b, _ in world.edges:
        matrix[b, a] += 1
    scale = torch.diag(matrix.sum(dim=1) ** -0.5)
    normal = scale @ matrix @ scale
    powers = [torch.linalg.matrix_power(normal, i).diagonal() for i in (1, 2, 3)]
    walks = torch.stack(powers, dim=1)
    return {v: x[v] + applied(gnn.start.linear, walks[v]) for v in x}


def literal_readout(name, readout, world, states):
    h, nodes = states[-1], range(world.n)
    if name in ("khop", "ego"):
        return h
    if name == "id-fast":
        return {v: nn.functional.normalize(h[v], dim=0) for v in nodes}
    if name == "id":
        return {v: nn.functional.normalize(h[v, v], dim=0) for v in nodes}
    if name.startswith("nested") or name == "ds":
        used = states if name == "ds" else states[1:]
        h = {pair: torch.cat([state[pair] for state in used]) for pair in h}
        if readout.reduce is None:
            return {v: h[v, v] for v in nodes}
    view = world.context if name.endswith("SV") else world.subgraph
    x = {v: literal.pooled(view(h, v), readout.reduce) for v in nodes}
    if name == "ds":
        return {v: nn.functional.elu(applied(readout.linear, x[v])) for v in nodes}
    if name.startswith(("sswl", "l2fgnn")):
        after = {v: applied(readout.mlp, x[v]) for v in nodes}
        return {v: applied(readout.norm, after[v]).clamp(min=0) for v in nodes}
    return x
