"""GNN-AK layers that uplift any GNN, base GNNs to uplift, and feature encoders."""

from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.base.ppgn import PPGN
from gnnak.nn.base.stack import Stack
from gnnak.nn.calling import Call, Inputs
from gnnak.nn.family import SubgraphGNN
from gnnak.nn.family.gnn import Conv, PairEncoder
from gnnak.nn.features import Categorical, Continuous, describe, make_encoder
from gnnak.nn.options import PAPER, PUBLISHED, LayerOptions
from gnnak.nn.uplift import GNNAK
from gnnak.nn.whole_model import UpliftedConv, uplift

__all__ = [
    "GNNAK",
    "PAPER",
    "PPGN",
    "PUBLISHED",
    "Call",
    "Categorical",
    "Continuous",
    "Conv",
    "Inputs",
    "LayerOptions",
    "PNAStarConv",
    "PairEncoder",
    "Stack",
    "SubgraphGNN",
    "UpliftedConv",
    "describe",
    "make_encoder",
    "uplift",
]
