"""Golden values: what networks of the published code compute, with all their weights.

`README.md` in this folder describes the files. `GoldenCase` loads one, builds the same
network with `gnnak`, and copies the published weights into it.
"""

import json
import re
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gnnak.models import ModelOptions, build_model
from gnnak.models.network import Network
from gnnak.nn.features import Categorical, Continuous, Features
from gnnak.sampling.drop import sample_subgraphs
from gnnak.subgraphs import EgoNets, RandomWalks, RootedSubgraphs

FOLDER = Path(__file__).parent
CASES = sorted(path.stem for path in FOLDER.glob("*.npz"))

NAMES = [
    # ours -> published; applied one after the other to the name of a weight.
    # The network.
    (r"^encoder\.block\.0\.", "input_encoder.layers.0."),
    (r"^encoder\.block\.1\.", "input_encoder.norms.0."),
    (r"^encoder\.tables\.weight$", "input_encoder.embeddings"),
    (r"^layers\.(\d+)\.after\.0\.", r"norms.\1."),
    (r"^head\.1\.0\.0\.", "output_decoder.layers.0."),
    (r"^head\.1\.0\.1\.", "output_decoder.norms.0."),
    (r"^head\.1\.1\.", "output_decoder.layers.1."),
    # Edge encoders.
    (r"^layers\.(\d+)\.kernels\.0\.edge_encoder\.", r"edge_encoders.\1."),
    (r"^(edge_encoders\.\d+)\.block\.0\.", r"\1.layers.0."),
    (r"^(edge_encoders\.\d+)\.block\.1\.", r"\1.norms.0."),
    (r"^(edge_encoders\.\d+)\.(tables\.)?weight$", r"\1.embeddings"),
    # A GNN-AK layer.
    (r"^layers\.(\d+)\.kernels\.0\.gnn\.(?=[^.]*_table|gnn|project|transforms|gates|fuse)",
     r"subgraph_layers.\1."),
    (r"\.hop_table\.", ".hop_embedder."),
    (r"\.project\.", ".gnns.0.output_encoder.layers.0."),
    (r"\.transforms\.(\w+)\.(\d)\.0\.", r".\1_transform.layers.\2."),
    (r"\.transforms\.(\w+)\.(\d)\.1\.", r".\1_transform.norms.\2."),
    (r"\.gates\.(\w+)\.linear\.", r".gate_mapper_\1.0."),
    (r"\.fuse\.mlp\.(\d)\.0\.", r".out_encoder.layers.\1."),
    (r"\.fuse\.mlp\.(\d)\.1\.", r".out_encoder.norms.\1."),
    (r"\.fuse\.mlp\.(\d)\.", r".out_encoder.layers.\1."),
    (r"^(subgraph_layers\.\d+)\.gnn\.", r"\1.gnns.0."),
    # A GNN on the whole graph.
    (r"^layers\.(\d+)\.kernels\.\d\.gnn\.", r"traditional_gnns.\1."),
    # Convs: GINE, GCN, PNA*.
    (r"\.nn\.0\.0\.", ".nn.layers.0."),
    (r"\.nn\.0\.1\.", ".nn.norms.0."),
    (r"\.nn\.1\.", ".nn.layers.1."),
    (r"\.eps$", ".layer.eps"),
    (r"\.lin\.", ".layer.lin."),
    (r"\.degree\.", ".deg_embedder."),
    (r"\.message\.", ".pre_nn."),
    (r"\.update\.", ".post_nn."),
    # PPGN.
    (r"\.blocks\.(\d+)\.", r".reg_blocks.\1."),
    (r"\.left\.0\.", ".mlp1.convs.0."),
    (r"\.left\.2\.", ".mlp1.convs.1."),
    (r"\.right\.0\.", ".mlp2.convs.0."),
    (r"\.right\.2\.", ".mlp2.convs.1."),
    (r"\.mix\.", ".skip.conv."),
    (r"\.readout\.", ".output_encoder."),
    # MLPs of Linear, BatchNorm, ReLU, Linear.
    (r"(pre_nn|post_nn|output_encoder)\.0\.0\.", r"\1.layers.0."),
    (r"(pre_nn|post_nn|output_encoder)\.0\.1\.", r"\1.norms.0."),
    (r"(pre_nn|post_nn|output_encoder)\.1\.", r"\1.layers.1."),
]  # fmt: skip
"""Maps names of our weights to published names, by regular expressions."""

OURS_ALONE = r"\.nn\.layers\.1\.bias|\.post_nn\.layers\.1\.bias|(convs|gnns)\.\d+\.bias"
"""Biases of GINE, PNA* and GCN that the published convs do not have. A BatchNorm after
each of these convs cancels the bias, so the test sets it to zero."""


def published_name(ours: str) -> str:
    """Return the published name of one of our weights."""
    for pattern, replacement in NAMES:
        ours = re.sub(pattern, replacement, ours)
    return ours


class GoldenCase:
    """One file of golden values, and the network of `gnnak` that it belongs to."""

    def __init__(
        self, name: str, dtype: torch.dtype = torch.double, device: str = "cpu"
    ) -> None:
        with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        self.config = json.loads(str(arrays.pop("config")))
        self.arrays: dict[str, Tensor] = {}
        for key, array in arrays.items():
            tensor = torch.from_numpy(array).to(device)
            self.arrays[key] = (
                tensor.to(dtype) if tensor.is_floating_point() else tensor
            )
        self.dtype, self.device = dtype, device

    def build(self) -> Network:
        """Build the network, with the published weights."""
        config = self.config
        names = ("encodings", "fuse")
        chosen = {name: config[name] for name in names if config[name] is not None}
        walks = config["subgraphs"] == "walks"
        network = build_model(
            config["model"],
            _features(config["node_features"]),
            _features(config["edge_features"]),
            config["out_channels"],
            ModelOptions(
                num_layers=config["num_layers"],
                base_layers=config["base_layers"] or 1,
                channels=config["channels"],
                hop_channels=config["hop_channels"],
                mlp_layers=config["mlp_layers"],
                dropout=config["dropout"],
                reduce=config["pooling"],
                plain_conv=config["plain_conv"],
                subgraphs=RandomWalks() if walks else EgoNets(config["hops"] or 1),
                **chosen,
            ),
            node_task=config["node_task"],
        ).to(self.device, self.dtype)
        state = {
            name: self.published("weight", name, value)
            for name, value in network.state_dict().items()
        }
        network.load_state_dict(state)
        return network

    def published(self, kind: str, ours: str, like: Tensor) -> Tensor:
        """Return the published value for one of our weights or buffers."""
        name = f"{kind}/{published_name(ours)}"
        if name.endswith(".embeddings"):
            keys = [f"{name}.{i}.weight" for i in range(10)]
            value = torch.cat([self.arrays[key] for key in keys if key in self.arrays])
        elif name in self.arrays:
            value = self.arrays[name]
        else:
            assert re.search(f"({OURS_ALONE})$", name), f"{ours} is not published"
            return torch.zeros_like(like, dtype=self.dtype)
        if name.endswith("hop_embedder.weight"):
            # Published: row 0 for "not reached", then the distances 0, 1, 2, ...
            value = torch.cat([value[1 : like.size(0)], value[:1]])
        return value.reshape(like.shape)

    @cached_property
    def used_weights(self) -> set[str]:
        """Names of the published weights that have a gradient."""
        grads = [key for key in self.arrays if key.startswith("grad/")]
        return {
            re.sub(r"embeddings\.\d+\.weight", "embeddings", key[5:]) for key in grads
        }

    def subgraphs(self, training: bool) -> RootedSubgraphs | None:
        """Return the rooted subgraphs; in training, those that were sampled."""
        if "sub/node" not in self.arrays:
            return None
        node, subgraph, hop, ends, edge = (
            self.arrays[f"sub/{name}"]
            for name in ("node", "subgraph", "hop", "edge_index", "edge")
        )
        order = torch.from_numpy(
            np.lexsort([t.cpu() for t in (edge, ends[0], ends[1])])
        )
        order = order.to(self.device)
        num_nodes, edge_index = self.arrays["x"].size(0), self.arrays["edge_index"]
        found = RootedSubgraphs(
            torch.arange(num_nodes, device=self.device),
            node,
            subgraph,
            hop,
            ends[:, order],
            edge[order],
            num_nodes=num_nodes,
            num_edges=edge_index.size(1),
        )
        if not training or self.config["drop"] is None:
            return found
        mask = torch.zeros(num_nodes, dtype=torch.bool, device=self.device)
        mask[self.arrays["drop/selected"]] = True
        return sample_subgraphs(found, edge_index, mask)

    def run(self, network: Network, training: bool) -> Tensor:
        """Run the network, in training with the published dropout masks."""
        given = [
            self.arrays.get(key) for key in ("x", "edge_index", "edge_attr", "batch")
        ]
        subgraphs = self.subgraphs(training)
        network.train(training)
        return network(*given, subgraphs, num_graphs=self.config["num_graphs"])

    def dropout(self):
        """Return a function that replaces PyTorch's dropout by the published masks.

        The masks are taken in the order in which the published network draws them; a
        mask whose result is not used is left out.
        """
        calls = enumerate(self.config["dropout_calls"])
        masks = iter([k for k, place in calls if "unused" not in place])

        def masked(x: Tensor, p: float = 0.5, training: bool = True, *_) -> Tensor:
            if not training or not p:
                return x
            return x * self.arrays[f"dropout/{next(masks)}"] / (1 - p)

        return masked


def _features(config: dict | None) -> Features | None:
    """Return the description of node or edge features."""
    if config is None:
        return None
    if config["kind"] == "categorical":
        return Categorical(tuple(config["sizes"]))
    return Continuous(config["channels"])


def assert_golden(
    name: str, monkeypatch, dtype=torch.double, device="cpu", outputs=1e-12, rest=1e-11
) -> None:
    """Compare outputs, gradients and running statistics with the published ones."""
    case = GoldenCase(name, dtype, device)
    monkeypatch.setattr(F, "dropout", case.dropout())

    def close(ours: Tensor, theirs: Tensor, limit: float, what: str) -> None:
        assert ours.shape == theirs.shape, what
        difference = float((ours - theirs).detach().abs().max())
        assert difference <= limit, f"{what} differs by {difference}"

    network = case.build()
    with torch.no_grad():
        out = case.run(network, training=False)
    close(out, case.arrays["out/eval"], outputs, "the output in evaluation")
    out = case.run(network, training=True)
    close(out, case.arrays["out/train"], outputs, "the output in training")
    (out * case.arrays["probe"]).sum().backward()
    used = set()
    for ours, weight in network.named_parameters():
        used.add(published_name(ours))
        assert weight.grad is not None, ours
        close(weight.grad, case.published("grad", ours, weight), rest, ours)
    assert case.used_weights <= used, "published weights have no counterpart"
    for ours, buffer in network.named_buffers():
        if ours in network.state_dict():
            close(buffer, case.published("after", ours, buffer), rest, ours)
