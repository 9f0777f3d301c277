"""Which runs have their steps captured: asked of the machine and of the network."""

import pytest

from gnnak.backend import use_backend
from gnnak.fast import make_backend
from gnnak.training.module import build_network
from gnnak.training.processes.machine import Machine
from tests.training.small import small_config, triangles

PYG_GCN = "torch_geometric.nn:GCNConv"


@pytest.fixture(autouse=True)
def _gpus(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)


@pytest.mark.parametrize(
    ("options", "precision", "captures"),
    [
        ({}, "32", True),
        ({}, "bf16", True),
        ({}, "64", True),
        ({}, "16", False),
        ({"fast": False}, "32", False),
        ({"recompute": True}, "32", False),
        ({"devices": 2}, "32", True),
        ({"num_nodes": 2}, "32", True),
        ({"accelerator": "cpu"}, "32", False),
    ],
)
def test_machine_captures_steps_on_gpus(options, precision, captures):
    config = small_config(train__precision=precision)
    assert is_captured_by(Machine(**options), config) is captures
    synchronising = small_config(train__precision=precision, model__name="gat-ak+")
    assert not is_captured_by(Machine(**options), synchronising)


def is_captured_by(machine, config):
    network = build_network(config, triangles().info)
    with use_backend(make_backend()):
        return machine.captures(network, config.train.precision)


@pytest.mark.parametrize(
    ("options", "captures"),
    [
        ({}, True),
        ({"model__name": f"{PYG_GCN}-ak-s"}, True),
        ({"model__encodings": ("centroid", "context")}, True),
        ({"model__name": PYG_GCN}, False),
        ({"model__plain_conv": True}, False),
        ({"model__encodings": ("context",)}, False),
        ({"model__mlp_layers": 0}, False),
        ({"model__dropout": 0.5}, True),
        ({"train__precision": "64"}, False),
        ({"train__precision": "bf16"}, True),
    ],
)
def test_machine_captures_gcn_of_pyg_where_it_is_fused(options, captures, monkeypatch):
    monkeypatch.setattr("gnnak.fast.step.captured.has_triton", lambda: True)
    config = small_config(**({"model__name": f"{PYG_GCN}-ak+"} | options))
    assert is_captured_by(Machine(), config) is captures
    monkeypatch.setattr("gnnak.fast.step.captured.has_triton", lambda: False)
    assert not is_captured_by(Machine(), config)


@pytest.mark.parametrize(
    ("name", "options", "captures"),
    [
        *(
            (name, {"train__precision": precision}, True)
            for name in ("gcn", "gcn-ak", "gcn-ak+", "gcn-ak+-s", "dss-gcn")
            for precision in ("32", "bf16", "64")
        ),
        ("dss-gin", {}, True),
        ("sun-gin", {}, True),
        ("sswl+-gin", {}, True),
        ("sswl+-gin", {"model__subgraphs__kind": "egonets"}, False),
        ("l2fgnn-gin", {}, True),
        ("l2fgnn-gin", {"model__subgraphs__kind": "egonets"}, False),
        ("l2fgnn-gin", {"model__family__norm": "none"}, True),
        ("nested-gin", {}, True),
        ("ds-gin", {"model__family__pairs": ["mark", "rrwp"]}, True),
        ("id-fast-gin", {}, True),
        ("khop-gin", {}, True),
        ("dss-gat", {}, False),
    ],
)
def test_machine_captures_networks_that_do_not_synchronise(name, options, captures):
    config = small_config(model__name=name, **options)
    assert is_captured_by(Machine(), config) is captures
