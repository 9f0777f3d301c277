"""Models of several convs, and the rest of PyG's models, with their arguments."""

from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn.models import LPFormer, ViSNet

from tests.nn.catalogue import (
    ATTRIBUTED,
    MOLECULE,
    SCALE,
    TYPED,
    WEIGHTED,
    C,
    E,
    Entry,
    TwoHeads,
    basic,
    lin,
    unbuilt,
)
from tests.nn.stacks import (
    AllPairs,
    DenseUNet,
    Dropped,
    EdgeModel,
    PointStack,
    Pooled,
    Predictor,
    Recurrent,
    Stack,
)

W = 6
BATCHED = "x edge_index batch"
POINTS = "pos edge_index"


def discriminator() -> nn.Module:
    return pyg.MLP([5, 4, 1], norm=None)


def pooled(pool: nn.Module) -> nn.Module:
    return Pooled(pyg.GCNConv(C, W), pool, pyg.GCNConv(W, 5))


def twice(conv: nn.Module) -> nn.Module:
    return Stack([conv, conv])


def reversible() -> nn.Module:
    return pyg.GroupAddRev(pyg.SAGEConv(2, 2), num_groups=2)


def visnet() -> nn.Module:
    """Return a ViSNet whose graph joins all atoms; its own graph needs pyg-lib."""
    sizes = {"num_layers": 2, "hidden_channels": 8, "num_rbf": 4, "max_z": 20}
    model = ViSNet(lmax=1, num_heads=2, **sizes)
    model.representation_model.distance = AllPairs()
    return model


STACKS = {
    "ARGA": Entry(lambda: pyg.ARGA(basic(pyg.GCN), discriminator())),
    "ARGVA": Entry(lambda: pyg.ARGVA(TwoHeads(), discriminator())),
    "CuGraphGATConv": Entry(lambda: unbuilt(pyg.CuGraphGATConv)),
    "CuGraphRGCNConv": Entry(lambda: unbuilt(pyg.CuGraphRGCNConv)),
    "CuGraphSAGEConv": Entry(lambda: unbuilt(pyg.CuGraphSAGEConv)),
    "DenseGATConv": Entry(lambda: pyg.DenseGATConv(C, C)),
    "DenseGCNConv": Entry(lambda: pyg.DenseGCNConv(C, C)),
    "DenseGINConv": Entry(lambda: pyg.DenseGINConv(lin())),
    "DenseGraphConv": Entry(lambda: pyg.DenseGraphConv(C, C)),
    "DenseSAGEConv": Entry(lambda: pyg.DenseSAGEConv(C, C)),
    "DimeNetPlusPlus": Entry(lambda: unbuilt(pyg.DimeNetPlusPlus), MOLECULE),
    "GraphUNet": Entry(lambda: DenseUNet(C, W, 5, 2), BATCHED),
    "InnerProductDecoder": Entry(lambda: pyg.InnerProductDecoder()),
    "LPFormer": Entry(lambda: LPFormer(C, W)),
    "MLP": Entry(lambda: pyg.MLP([C, W, 5])),
    "MetaLayer with a model of edges": Entry(
        lambda: pyg.MetaLayer(edge_model=EdgeModel(C, E)), ATTRIBUTED
    ),
    "Node2Vec": Entry(lambda: unbuilt(pyg.Node2Vec)),
    "RENet": Entry(lambda: pyg.RENet(6, 3, 4, 2)),
    "TGNMemory": Entry(lambda: unbuilt(pyg.TGNMemory)),
    "ViSNet": Entry(
        visnet, MOLECULE, skip="representation_model.*_embedding", needs="pyg-lib"
    ),
    "EdgePooling between convs": Entry(lambda: pooled(pyg.EdgePooling(W)), BATCHED),
    "SAGPooling between convs": Entry(lambda: pooled(pyg.SAGPooling(W)), BATCHED),
    "TopKPooling between convs": Entry(lambda: pooled(pyg.TopKPooling(W)), BATCHED),
    "edges removed between convs": Entry(
        lambda: Dropped(pyg.GCNConv(C, W), pyg.SAGEConv(W, 5))
    ),
    "PyG Sequential": Entry(
        lambda: pyg.Sequential(
            "x, edge_index",
            [
                (pyg.GCNConv(C, W), "x, edge_index -> x"),
                nn.ReLU(),
                (pyg.GATConv(W, 5), "x, edge_index -> x"),
            ],
        )
    ),
    "JumpingKnowledge cat": Entry(
        lambda: Stack(
            [pyg.GINConv(lin(C, W)), pyg.GINConv(lin(W, W))],
            jump=pyg.JumpingKnowledge("cat"),
        )
    ),
    "JumpingKnowledge lstm": Entry(
        lambda: Stack(
            [pyg.SAGEConv(C, W), pyg.SAGEConv(W, W)],
            jump=pyg.JumpingKnowledge("lstm", W, 2),
        )
    ),
    "JumpingKnowledge max": Entry(
        lambda: Stack(
            [pyg.GCNConv(C, W), pyg.GCNConv(W, W)], jump=pyg.JumpingKnowledge("max")
        ),
        WEIGHTED,
    ),
    "GCNII": Entry(lambda: Stack([pyg.GCN2Conv(C, 0.1) for _ in range(3)], keep=True)),
    "FAGCN": Entry(lambda: Stack([pyg.FAConv(C) for _ in range(2)], keep=True)),
    "RGCN": Entry(lambda: Stack([pyg.RGCNConv(C, W, 3), pyg.RGCNConv(W, 5, 3)]), TYPED),
    "RGAT": Entry(lambda: Stack([pyg.RGATConv(C, W, 3), pyg.RGATConv(W, 5, 3)]), TYPED),
    "DeepGCN": Entry(
        lambda: Stack(
            [
                pyg.DeepGCNLayer(pyg.GENConv(C, C), nn.LayerNorm(C), nn.ReLU(), block)
                for block in ("res+", "res", "plain")
            ]
        )
    ),
    "GPS": Entry(
        lambda: Stack(
            [pyg.GPSConv(C, pyg.GINEConv(lin(), edge_dim=E)) for _ in range(2)]
        ),
        "x edge_index batch edge_attr",
    ),
    "GPS with Performer": Entry(
        lambda: Stack(
            [pyg.GPSConv(C, pyg.GCNConv(C, C), attn_type="performer") for _ in "ab"]
        ),
        BATCHED,
    ),
    "graph transformer": Entry(
        lambda: Stack(
            [
                pyg.TransformerConv(C, 3, heads=2, edge_dim=E),
                pyg.TransformerConv(W, 5, edge_dim=E),
            ]
        ),
        ATTRIBUTED,
    ),
    "GAT of several heads": Entry(
        lambda: Stack(
            [pyg.GATConv(C, 2, heads=3), pyg.GATConv(W, 5, heads=2, concat=False)]
        )
    ),
    "PNA with towers": Entry(
        lambda: Stack(
            [pyg.PNAConv(C, C, towers=2, divide_input=True, edge_dim=E, **SCALE)]
        ),
        ATTRIBUTED,
    ),
    "MixHop": Entry(lambda: Stack([pyg.MixHopConv(C, 2), pyg.MixHopConv(W, 2)])),
    "ChebNet": Entry(
        lambda: Stack([pyg.ChebConv(C, W, 2), pyg.ChebConv(W, 5, 3)]), WEIGHTED
    ),
    "RevGNN": Entry(
        # A ReLU between the layers fails, also without uplift: its output is freed.
        lambda: pyg.Sequential(
            "x, edge_index",
            [
                (reversible(), "x, edge_index -> x"),
                (reversible(), "x, edge_index -> x"),
            ],
        )
    ),
    "GCN of lazy width": Entry(lambda: pyg.GCN(-1, W, 2, 5)),
    "GCN with GraphNorm and PairNorm": Entry(
        lambda: Stack(
            [pyg.GCNConv(C, W), pyg.GCNConv(W, 5)],
            norms=[pyg.GraphNorm(W), pyg.PairNorm()],
        )
    ),
    "one conv in two places": Entry(lambda: twice(pyg.GCNConv(C, C)), WEIGHTED),
    "one conv with a GRU": Entry(lambda: Recurrent(pyg.GraphConv(C, C), C)),
    "GIN for molecules": Entry(
        lambda: Predictor(lambda: pyg.GINConv(lin(W, W)), W), "z edge_index batch"
    ),
    "PointNet": Entry(
        lambda: PointStack([pyg.PointNetConv(lin(6, W)), pyg.PointNetConv(lin(9, 5))]),
        POINTS,
    ),
    "point transformer": Entry(
        lambda: PointStack(
            [pyg.PointTransformerConv(3, W), pyg.PointTransformerConv(W, 5)]
        ),
        POINTS,
    ),
}
