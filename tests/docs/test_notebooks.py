"""The tutorials: committed with outputs, and executed by `make slow`."""

import json
import re

import pytest

from docs.tools.notebooks import execute, notebooks, run_cell

PATHS = notebooks()
MACHINE_PATH = re.compile(r"/(home|root|tmp|work|Users|private|var)/|[A-Z]:\\\\")
MAX_BYTES = 700_000


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook_runs(path):
    stored = json.loads(path.read_text("utf-8"))
    done = execute(stored)
    for old, new in zip(code_cells(stored), code_cells(done), strict=True):
        kinds = [[one["output_type"] for one in cell["outputs"]] for cell in (old, new)]
        assert kinds[0] == kinds[1], "run make notebooks: the outputs are out of date"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook_is_stored_with_outputs_and_without_errors(path):
    text = path.read_text("utf-8")
    cells = code_cells(json.loads(text))
    numbers = [cell["execution_count"] for cell in cells]
    assert numbers == list(range(1, len(cells) + 1))
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert len(kinds) >= 4
    assert "error" not in kinds
    assert not MACHINE_PATH.search(text)


def test_notebooks_are_small():
    assert len(PATHS) >= 6
    assert sum(path.stat().st_size for path in PATHS) < MAX_BYTES


def test_run_cell_returns_text_value_and_figure():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    space: dict = {}
    code = (
        "import matplotlib.pyplot as p\nprint('a')\nf = p.figure(figsize=(1, 1))\n2 + 3"
    )
    text, figure, value = run_cell(code, space, 1)
    assert text == {"name": "stdout", "output_type": "stream", "text": ["a\n"]}
    assert figure["data"]["image/png"].startswith("iVBOR")
    assert value["data"] == {"text/plain": ["5"]}
    assert value["execution_count"] == 1
    assert run_cell("x = 1", space, 2) == []
    assert run_cell("x + 1;", space, 3) == []


def test_run_cell_lets_errors_through():
    with pytest.raises(ZeroDivisionError):
        run_cell("1 / 0", {}, 1)
