"""Every conv and model of the catalogue runs uplifted, or is refused with a reason.

docs/supported-convs.md shows the result; `python -m tests.nn.supported_page` rewrites
the tables.
"""

import re

import pytest
import torch

from gnnak import uplift
from tests.nn import test_any_gnn as any_gnn
from tests.nn.supported_page import PAGE, TABLES, call, row

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ALL = {name: entry for table in TABLES.values() for name, entry in table.items()}
ROWS = {line.split(" | ")[0][2:]: line for line in PAGE.read_text().splitlines()}


@pytest.mark.parametrize("name", ALL)
def test_supported_convs_page_shows_what_happens(name):
    assert row(name, ALL[name]) == ROWS[name]


def test_supported_convs_page_has_all_entries_of_the_catalogue():
    tables = PAGE.read_text().split("## Convs")[1]
    shown = [line for line in tables.splitlines() if line.startswith("| ")]
    names = [line.split(" | ")[0][2:] for line in shown]
    assert [name for name in names if name != "name"] == list(ALL)


@pytest.mark.parametrize("block", BLOCK.findall(PAGE.read_text()))
def test_supported_convs_page_has_code_that_runs(block):
    exec(compile(block, PAGE.name, "exec"), {})


RUNNING = [name for name in ALL if " | runs" in ROWS.get(name, "")]


@pytest.mark.parametrize("name", RUNNING)
def test_uplift_with_whole_graphs_and_centroids_alone_changes_nothing(name):
    """If every subgraph is the whole graph, Emb(v|Sub[v]) is the state of the conv."""
    entry = ALL[name]
    torch.manual_seed(0)
    model = entry.make().to(entry.dtype).eval()
    wanted = call(model, entry)
    plain = {"encodings": ("centroid",), "hop_channels": 0, "fuse": "sum"}
    got = call(uplift(model, 10, skip=entry.skip, **plain).eval(), entry)
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("name", sorted(set(RUNNING) - set(any_gnn.CONVS)))
def test_uplifted_convs_keep_the_shapes_and_pass_gradients(name):
    entry = ALL[name]
    torch.manual_seed(0)
    model = entry.make().to(entry.dtype)
    net = uplift(model, num_hops=1, skip=entry.skip)
    with torch.no_grad():
        call(net, entry)
    got, wanted = (first(call(one, entry)) for one in (net, model))
    assert got.shape == wanted.shape
    got.square().sum().backward()
    gates = [p for key, p in net.named_parameters() if "hop_table" in key]
    assert gates
    assert any(p.grad is not None and p.grad.any() for p in gates)


def first(out):
    return out[0] if isinstance(out, tuple) else out
