"""The code of docs/own-loop.md that trains, run as a reader runs it."""

import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

PAGE = Path(__file__).parent.parent / "docs" / "own-loop.md"


@pytest.mark.heavy
def test_the_loop_of_the_docs_runs():
    block = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    sizes = [3, 4, 5] * 50
    graphs = [
        Data(
            x=torch.rand(n, 16),
            edge_index=torch.randint(n, (2, 2 * n)),
            y=torch.rand(1),
        )
        for n in sizes
    ]
    namespace: dict = {"graphs": graphs}
    exec(compile(block[1], str(PAGE), "exec"), namespace)
    assert namespace["value"].isfinite()
