"""The README's code, run block by block in one namespace: a stale one fails."""

import re
from pathlib import Path

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GIN

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WIDTH = re.compile(r"\bin_channels=(\d+)|\bG\w+\((\d+), ")
"""The width of `x` that a block builds its layers for."""
EDGE_CHANNELS = 8


def blocks() -> list[str]:
    return BLOCK.findall(README.read_text(encoding="utf-8"))


def names_a_reader_has(block: str) -> dict[str, object]:
    """The graph and the model that a block takes for granted; `x` as wide as needed."""
    found = WIDTH.search(block)
    width = int(found[1] or found[2]) if found else 16
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    data = Data(
        x=torch.rand(4, width),
        edge_index=edge_index,
        edge_attr=torch.rand(8, EDGE_CHANNELS),
        y=torch.tensor([1.0]),
    )
    return {
        "torch": torch,
        "x": data.x,
        "edge_index": edge_index,
        "edge_attr": data.edge_attr,
        "num_nodes": 4,
        "data": data,
        "data_list": [data, data],
        "batch": Batch.from_data_list([data, data]),
        "model": GIN(width, 8, num_layers=2),
        "their_model": GIN(width, 8, num_layers=2),
    }


def test_readme_has_code():
    assert len(blocks()) >= 4


def test_readme_code_runs():
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks(), start=1):
        namespace |= names_a_reader_has(block)
        exec(compile(block, f"README.md, python block {number}", "exec"), namespace)
