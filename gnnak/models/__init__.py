"""The networks of the paper's experiments, built from options or by name."""

from gnnak.models.factory import build_model, model_names
from gnnak.models.network import Kernel, Network, OuterLayer
from gnnak.models.options import ModelOptions

__all__ = [
    "Kernel",
    "ModelOptions",
    "Network",
    "OuterLayer",
    "build_model",
    "model_names",
]
