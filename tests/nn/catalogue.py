"""PyG convs and models, with the arguments that each is called with."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.fused_gat_conv import FusedGATConv
from torch_geometric.nn.models.attentive_fp import GATEConv
from torch_geometric.nn.models.schnet import CFConv
from torch_geometric.nn.models.visnet import ViS_MP

C, E = 4, 3
DEGREES = torch.tensor([1, 4, 6, 2])
SCALE = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": DEGREES}


@dataclass(frozen=True)
class Entry:
    """One conv or model."""

    make: Callable[[], nn.Module]
    """Builds it; node states have width C, edge attributes width E."""
    given: str = "x edge_index"
    """Names of the arguments that it is called with."""
    skip: str | None = None
    """Name of a conv that is left out, as the message of the refusal advises."""
    dtype: torch.dtype = torch.double
    """Dtype of weights and inputs; some models work with float32 only."""
    needs: str = ""
    """What a user needs in addition, such as an optional package."""


def lin(width_in: int = C, width_out: int = C) -> nn.Module:
    return nn.Linear(width_in, width_out)


def graph_inputs() -> dict[str, object]:
    """Return a connected graph of 6 nodes and 14 edges, with every kind of input."""
    torch.manual_seed(0)
    ring = torch.arange(6)
    once = torch.stack([ring, (ring + 1) % 6])
    once = torch.cat([once, torch.tensor([[0], [3]])], dim=1)
    edge_index = torch.cat([once, once.flip(0)], dim=1)
    n, e = 6, edge_index.size(1)
    pos = torch.rand(n, 3).double()
    return {
        "x": torch.rand(n, C).double(),
        "x_0": torch.rand(n, C).double(),
        "pos": pos,
        "normal": nn.functional.normalize(torch.rand(n, 3).double(), dim=1),
        "z": torch.tensor([1, 6, 7, 8, 6, 1]),
        "node_type": torch.tensor([0, 1, 0, 1, 1, 0]),
        "edge_index": edge_index,
        "edge_attr": torch.rand(e, E).double(),
        "edge_weight": torch.rand(e).double(),
        "edge_type": torch.arange(e) % 3,
        "batch": torch.zeros(n, dtype=torch.long),
        "vec": torch.rand(n, 3, C).double(),
        "r_ij": torch.rand(e).double(),
        "f_ij": torch.rand(e, C).double(),
        "d_ij": torch.rand(e, 3).double(),
    }


WEIGHTED = "x edge_index edge_weight"
ATTRIBUTED = "x edge_index edge_attr"
TYPED = "x edge_index edge_type"
SPATIAL = "x pos edge_index"
METADATA = (["a"], [("a", "to", "a")])

CONVS = {
    "AGNNConv": Entry(lambda: pyg.AGNNConv()),
    "AntiSymmetricConv": Entry(lambda: pyg.AntiSymmetricConv(C)),
    "APPNP": Entry(lambda: pyg.APPNP(K=2, alpha=0.1), WEIGHTED),
    "ARMAConv": Entry(lambda: pyg.ARMAConv(C, C, num_layers=2), WEIGHTED),
    "CGConv": Entry(lambda: pyg.CGConv(C, dim=E), ATTRIBUTED),
    "CFConv": Entry(
        lambda: CFConv(C, C, C, lin(E), 3.0), "x edge_index edge_weight edge_attr"
    ),
    "ChebConv": Entry(lambda: pyg.ChebConv(C, C, K=3), WEIGHTED),
    "ClusterGCNConv": Entry(lambda: pyg.ClusterGCNConv(C, C)),
    "DirGNNConv": Entry(lambda: pyg.DirGNNConv(pyg.GCNConv(C, C))),
    "DNAConv": Entry(lambda: pyg.DNAConv(C)),
    "DynamicEdgeConv": Entry(lambda: unbuilt(pyg.DynamicEdgeConv)),
    "EdgeConv": Entry(lambda: pyg.EdgeConv(lin(2 * C))),
    "EGConv": Entry(lambda: pyg.EGConv(C, C, num_heads=2)),
    "FAConv": Entry(lambda: pyg.FAConv(C), "x x_0 edge_index"),
    "FastRGCNConv": Entry(lambda: pyg.FastRGCNConv(C, C, 3), TYPED),
    "FeaStConv": Entry(lambda: pyg.FeaStConv(C, C, heads=2)),
    "FiLMConv": Entry(lambda: pyg.FiLMConv(C, C)),
    "FiLMConv with edge types": Entry(lambda: pyg.FiLMConv(C, C, 3), TYPED),
    "FusedGATConv": Entry(lambda: unbuilt(FusedGATConv)),
    "GATConv": Entry(lambda: pyg.GATConv(C, C, heads=2, edge_dim=E), ATTRIBUTED),
    "GATConv of lazy width": Entry(lambda: pyg.GATConv(-1, C)),
    "GATEConv": Entry(lambda: GATEConv(C, C, edge_dim=E), ATTRIBUTED),
    "GatedGraphConv": Entry(lambda: pyg.GatedGraphConv(C, num_layers=2), WEIGHTED),
    "GATv2Conv": Entry(lambda: pyg.GATv2Conv(C, C, edge_dim=E), ATTRIBUTED),
    "GATv2Conv of lazy width": Entry(
        lambda: pyg.GATv2Conv(-1, C, edge_dim=E), ATTRIBUTED
    ),
    "GCN2Conv": Entry(lambda: pyg.GCN2Conv(C, alpha=0.1), "x x_0 edge_index"),
    "GCNConv": Entry(lambda: pyg.GCNConv(C, C), WEIGHTED),
    "GCNConv of lazy width": Entry(lambda: pyg.GCNConv(-1, C), WEIGHTED),
    "GENConv": Entry(lambda: pyg.GENConv(C, C, edge_dim=E), ATTRIBUTED),
    "GeneralConv": Entry(lambda: pyg.GeneralConv(C, C, in_edge_channels=E), ATTRIBUTED),
    "GINConv": Entry(lambda: pyg.GINConv(lin(), train_eps=True)),
    "GINConv of lazy width": Entry(lambda: pyg.GINConv(nn.LazyLinear(C))),
    "GINEConv": Entry(lambda: pyg.GINEConv(lin(), edge_dim=E), ATTRIBUTED),
    "GMMConv": Entry(lambda: pyg.GMMConv(C, C, dim=E, kernel_size=2), ATTRIBUTED),
    "GPSConv": Entry(
        lambda: pyg.GPSConv(C, pyg.GINEConv(lin(), edge_dim=E)),
        "x edge_index batch edge_attr",
    ),
    "GraphConv": Entry(lambda: pyg.GraphConv(C, C), WEIGHTED),
    "GraphConv of lazy width": Entry(lambda: pyg.GraphConv(-1, C), WEIGHTED),
    "GravNetConv": Entry(lambda: unbuilt(pyg.GravNetConv)),
    "HANConv": Entry(lambda: pyg.HANConv(C, C, METADATA)),
    "HEATConv": Entry(
        lambda: pyg.HEATConv(C, C, 2, 3, 4, E, 4),
        "x edge_index node_type edge_type edge_attr",
    ),
    "HeteroConv": Entry(lambda: pyg.HeteroConv({("a", "to", "a"): pyg.GCNConv(C, C)})),
    "HGTConv": Entry(lambda: pyg.HGTConv(C, C, METADATA)),
    "HypergraphConv": Entry(lambda: pyg.HypergraphConv(C, C)),
    "LEConv": Entry(lambda: pyg.LEConv(C, C), WEIGHTED),
    "LGConv": Entry(lambda: pyg.LGConv(), WEIGHTED),
    "MeshCNNConv": Entry(lambda: pyg.MeshCNNConv(C, C)),
    "MFConv": Entry(lambda: pyg.MFConv(C, C, max_degree=3)),
    "MixHopConv": Entry(lambda: pyg.MixHopConv(C, C), WEIGHTED),
    "NNConv": Entry(lambda: pyg.NNConv(C, C, lin(E, C * C)), ATTRIBUTED),
    "PANConv": Entry(lambda: pyg.PANConv(C, C, 2)),
    "PDNConv": Entry(lambda: pyg.PDNConv(C, C, E, 8), ATTRIBUTED),
    "PNAConv": Entry(lambda: pyg.PNAConv(C, C, **SCALE, edge_dim=E), ATTRIBUTED),
    "PointGNNConv": Entry(
        lambda: pyg.PointGNNConv(lin(C, 3), lin(C + 3, C), lin()), SPATIAL
    ),
    "PointNetConv": Entry(lambda: pyg.PointNetConv(lin(C + 3)), SPATIAL),
    "PointTransformerConv": Entry(lambda: pyg.PointTransformerConv(C, C), SPATIAL),
    "PPFConv": Entry(lambda: pyg.PPFConv(lin(C + 4)), "x pos normal edge_index"),
    "ResGatedGraphConv": Entry(
        lambda: pyg.ResGatedGraphConv(C, C, edge_dim=E), ATTRIBUTED
    ),
    "RGATConv": Entry(
        lambda: pyg.RGATConv(C, C, 3, edge_dim=E), "x edge_index edge_type edge_attr"
    ),
    "RGCNConv": Entry(lambda: pyg.RGCNConv(C, C, 3), TYPED),
    "RGCNConv with bases": Entry(lambda: pyg.RGCNConv(C, C, 3, num_bases=2), TYPED),
    "RGCNConv with blocks": Entry(lambda: pyg.RGCNConv(C, C, 3, num_blocks=2), TYPED),
    "SAGEConv": Entry(lambda: pyg.SAGEConv(C, C)),
    "SAGEConv of lazy width": Entry(lambda: pyg.SAGEConv(-1, C)),
    "SGConv": Entry(lambda: pyg.SGConv(C, C, K=2), WEIGHTED),
    "SignedConv": Entry(lambda: pyg.SignedConv(C, C, first_aggr=True)),
    "SimpleConv": Entry(lambda: pyg.SimpleConv(), WEIGHTED),
    "SSGConv": Entry(lambda: pyg.SSGConv(C, C, alpha=0.1), WEIGHTED),
    "SuperGATConv": Entry(lambda: pyg.SuperGATConv(C, C)),
    "TAGConv": Entry(lambda: pyg.TAGConv(C, C, K=2), WEIGHTED),
    "TransformerConv": Entry(lambda: pyg.TransformerConv(C, C, edge_dim=E), ATTRIBUTED),
    "TransformerConv of lazy width": Entry(lambda: pyg.TransformerConv(-1, C)),
    "ViS_MP": Entry(lambda: _visnet(), "x vec edge_index r_ij f_ij d_ij"),
    "WLConv": Entry(lambda: pyg.WLConv()),
    "WLConvContinuous": Entry(lambda: pyg.WLConvContinuous(), WEIGHTED),
    "XConv": Entry(lambda: unbuilt(pyg.XConv)),
}


def unbuilt(cls: type) -> nn.Module:
    """Return a conv whose constructor needs a package that is not installed here."""
    conv = cls.__new__(cls)
    init = pyg.MessagePassing if issubclass(cls, pyg.MessagePassing) else nn.Module
    init.__init__(conv)
    return conv


def _infomax() -> nn.Module:
    return pyg.DeepGraphInfomax(
        5,
        basic(pyg.GCN),
        summary=lambda z, *args, **options: z.mean(dim=0),
        corruption=lambda x, edge_index: (x.flip(0), edge_index),
    )


def _visnet() -> nn.Module:
    return ViS_MP(2, C, 5.0, None, False)


def basic(cls: type, **options: object) -> nn.Module:
    """Build one of PyG's basic GNNs, of two layers."""
    return cls(C, 6, num_layers=2, out_channels=5, **options)


def all_pairs(pos: torch.Tensor, batch: torch.Tensor) -> tuple:
    """Join all pairs of atoms, for SchNet; its own graph needs pyg-lib."""
    n = pos.size(0)
    ends = torch.cartesian_prod(torch.arange(n), torch.arange(n)).t()
    ends = ends[:, ends[0] != ends[1]]
    return ends, (pos[ends[0]] - pos[ends[1]]).norm(dim=1)


MOLECULE = "z pos batch"
MODELS = {
    "GCN": Entry(lambda: basic(pyg.GCN), WEIGHTED),
    "GIN": Entry(lambda: basic(pyg.GIN, norm="batch_norm")),
    "GraphSAGE": Entry(lambda: basic(pyg.GraphSAGE, jk="cat")),
    "GAT": Entry(lambda: basic(pyg.GAT, edge_dim=E), ATTRIBUTED),
    "GATv2": Entry(lambda: basic(pyg.GAT, v2=True)),
    "PNA": Entry(lambda: basic(pyg.PNA, **SCALE, edge_dim=E), ATTRIBUTED),
    "EdgeCNN": Entry(lambda: basic(pyg.EdgeCNN)),
    "AttentiveFP": Entry(
        lambda: pyg.AttentiveFP(C, 6, 5, E, 2, 2),
        "x edge_index edge_attr batch",
        skip="mol_conv",
    ),
    "ARLinkPredictor": Entry(lambda: pyg.ARLinkPredictor(C, 6, 5, 2)),
    "DeepGCNLayer": Entry(
        lambda: pyg.DeepGCNLayer(pyg.GENConv(C, C, edge_dim=E), nn.LayerNorm(C)),
        ATTRIBUTED,
    ),
    "DeepGraphInfomax": Entry(lambda: _infomax()),
    "DimeNet": Entry(lambda: unbuilt(pyg.DimeNet), MOLECULE),
    "GAE": Entry(lambda: pyg.GAE(basic(pyg.GCN))),
    "GNNFF": Entry(lambda: unbuilt(pyg.GNNFF), MOLECULE),
    "GroupAddRev": Entry(lambda: pyg.GroupAddRev(pyg.GCNConv(2, 2), num_groups=2)),
    "LabelPropagation": Entry(lambda: pyg.LabelPropagation(2, 0.5)),
    "LightGCN": Entry(lambda: pyg.LightGCN(6, C, 2), "edge_index"),
    "LINKX": Entry(lambda: pyg.LINKX(6, C, 6, 5, 2)),
    "MetaLayer": Entry(lambda: pyg.MetaLayer()),
    "NeuralFingerprint": Entry(
        lambda: pyg.NeuralFingerprint(C, 6, 5, 2), "x edge_index batch"
    ),
    "PMLP": Entry(lambda: pyg.PMLP(C, 6, 5, 2)),
    "Polynormer": Entry(
        lambda: pyg.Polynormer(C, 8, 5, local_layers=2, global_layers=1),
        "x edge_index batch",
    ),
    "RECT_L": Entry(lambda: pyg.RECT_L(C, 6), WEIGHTED),
    "SAGPooling": Entry(lambda: pyg.SAGPooling(C)),
    "SchNet": Entry(
        lambda: pyg.SchNet(8, 8, 2, 6, interaction_graph=all_pairs),
        MOLECULE,
        needs="pyg-lib, or `interaction_graph=`, a function that returns edges and "
        "distances",
    ),
    "SGFormer": Entry(
        lambda: pyg.SGFormer(C, 8, 5), "x edge_index batch", dtype=torch.float
    ),
    "SignedGCN": Entry(lambda: pyg.SignedGCN(C, 6, 2)),
    "to_hetero(GraphSAGE)": Entry(
        lambda: pyg.to_hetero(basic(pyg.GraphSAGE), METADATA)
    ),
    "VGAE": Entry(lambda: pyg.VGAE(TwoHeads())),
}


class TwoHeads(nn.Module):
    """Encoder of a variational auto-encoder: mean and logarithm of the deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.deviation = pyg.GCNConv(C, 5), pyg.GCNConv(C, 5)

    def forward(self, x, edge_index):
        return self.mean(x, edge_index), self.deviation(x, edge_index)
