"""Other subgraph GNNs, each composed of the operations in `gnnak.nn.copies`."""

from gnnak.nn.family.ds import (
    DSSLayer,
    InsideLayer,
    SUNLayer,
    ds_gnn,
    dss_gnn,
    nested_gnn,
    sun_gnn,
)
from gnnak.nn.family.ego import EgoLayer, ego_gnn
from gnnak.nn.family.gnn import SubgraphGNN
from gnnak.nn.family.identity import IDLayer, id_fast_gnn, id_gnn
from gnnak.nn.family.khop import KHopLayer, khop_gnn
from gnnak.nn.family.sswl import L2FGNNLayer, SSWLLayer, SSWLPlusLayer, l2fgnn, sswl_gnn

__all__ = [
    "DSSLayer",
    "EgoLayer",
    "IDLayer",
    "InsideLayer",
    "KHopLayer",
    "L2FGNNLayer",
    "SSWLLayer",
    "SSWLPlusLayer",
    "SUNLayer",
    "SubgraphGNN",
    "ds_gnn",
    "dss_gnn",
    "ego_gnn",
    "id_fast_gnn",
    "id_gnn",
    "khop_gnn",
    "l2fgnn",
    "nested_gnn",
    "sswl_gnn",
    "sun_gnn",
]
