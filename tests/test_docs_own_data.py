"""The names that docs/own-data.md and docs/formats.md list are those of the code."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import gnnak
from gnnak.datasets.own import OwnData, as_rows, load_own
from gnnak.datasets.own.read import READERS
from gnnak.datasets.record import METRICS
from gnnak.errors import GnnakError
from gnnak.graphs.readers.table import TABLE_SUFFIXES
from gnnak.training.config.experiment import DEFAULTS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "own-data.md").read_text("utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text("utf-8")
LABELS = {"labels": str(ROOT / "examples/labels.csv"), "targets": ("kind",)}


def test_pages_list_all_metrics_and_suffixes():
    for name in METRICS:
        assert name in TEXT
    for suffix in (*TABLE_SUFFIXES, *set(READERS) - {".pth"}):
        assert f"`{suffix}`" in FORMATS


def test_own_data_page_tells_the_defaults():
    layers, channels = DEFAULTS["model.num_layers"], DEFAULTS["model.channels"]
    assert f"{layers} layers and {channels} channels" in TEXT
    assert f"at most {DEFAULTS['train.epochs']} epochs" in TEXT


def headings(page: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in found}


def test_messages_name_pages_and_headings_that_exist():
    found = set()
    for path in Path(gnnak.__file__).parent.rglob("*.py"):
        # A string may continue in the next line.
        text = re.sub(r'"\n\s*f?"', "", path.read_text("utf-8"))
        found |= set(re.findall(r"\b(docs/[\w-]+\.md)(?:#([\w-]+))?", text))
    assert len({heading for _, heading in found}) > 8
    missing = [
        (page, name) for page, name in found if name and name not in headings(page)
    ]
    assert not missing
    assert all((ROOT / page).exists() for page, _ in found)


@pytest.mark.parametrize(
    ("name", "options", "graphs"),
    [
        ("molecules.csv", {"targets": ("logp",)}, 500),
        ("molecules.smi", {"labels": "molecules.csv", "targets": ("logp",)}, 500),
        ("graphs.npz", {}, 120),
        ("graphs.g6", LABELS, 120),
        ("graphs.json", {"targets": ("kind",), "node_attr": ("degree",)}, 30),
        ("graphs.jsonl", {"targets": ("degree",), "edge_attr": ("length",)}, 30),
        ("graphs.pt", {}, 30),
        ("graphs.edges", LABELS, 120),
    ],
)
def test_each_format_has_an_example_that_can_be_read(
    name, options, graphs, monkeypatch
):
    assert f"`{name}`" in FORMATS
    monkeypatch.chdir(ROOT / "examples")
    dataset = load_own(OwnData(name, **options)).dataset
    assert len(dataset.store) == graphs
    if name.startswith("graphs"):
        # The same graphs are in all files.
        same = as_rows("graphs.g6").store.num_edges[:graphs]
        assert torch.equal(dataset.store.num_edges, same)


@pytest.mark.parametrize(
    ("name", "content", "heading"),
    [
        ("a.csv", "", "tables"),
        ("a.csv", "a\0b", "tables"),
        ("a.csv", "formula,y\nCO,1\n", "tables"),
        ("a.smi", b"\xff", "smiles"),
        ("a.npz", "text", "npz"),
        ("a.npz", {"num_node": [3]}, "npz"),
        ("a.npz", {"sizes": [3]}, "npz"),
        ("a.npz", {"num_nodes": [3]}, "npz"),
        ("a.g6", ":text", "graph6"),
        ("a.json", "text", "json"),
        ("a.json", "{}", "json"),
        ("a.jsonl", '{"nodes": [{"id": 1}], "edges": [{}]}', "json"),
        ("a.pt", "text", "pyg"),
        ("a.edges", "a b c d", "edge-lists"),
        ("a.edges", b"\xff", "edge-lists"),
        ("a.edges", "0 1 0.5", "json"),
        ("folder/a.md", "text", "folders"),
        ("folder/a.csv", "text", "tables"),
        ("a.parquet", "text", "tables"),
        ("a.xyz", "text", None),
    ],
)
def test_messages_about_files_name_the_page_of_formats(
    tmp_path, name, content, heading
):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, dict):
        np.savez(path, **content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GnnakError) as caught:
        load_own(OwnData(str(tmp_path / name.split("/")[0])))
    link = "see docs/formats.md" + (f"#{heading}" if heading else "")
    assert link in str(caught.value).replace("See", "see")
