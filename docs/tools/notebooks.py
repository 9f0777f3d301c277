"""Execute the notebooks of docs/tutorials and write their outputs into them.

Run `make notebooks`. A notebook is executed in this process, cell by cell, without a
Jupyter server: printed text, the value of a last expression, and matplotlib figures
become its outputs.
"""

import argparse
import ast
import base64
import io
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parents[1] / "tutorials"
DPI = 80


def notebooks() -> list[Path]:
    """Return the paths of all notebooks, sorted."""
    return sorted(TUTORIALS.glob("*.ipynb"))


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run all code cells of a notebook in order, in a new temporary folder.

    Args:
        notebook: Content of the `.ipynb` file; is not changed.

    Returns:
        A copy of the notebook with the new outputs.

    Raises:
        Exception: Whatever a cell raises.
    """
    notebook = json.loads(json.dumps(notebook))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with _quiet_folder():
        for number, cell in enumerate(code, start=1):
            cell["execution_count"] = number
            cell["outputs"] = run_cell("".join(cell["source"]), namespace, number)
    return notebook


def run_cell(source: str, namespace: dict[str, Any], number: int) -> list[dict]:
    """Run one cell and return its outputs in the notebook format.

    Args:
        source: Code of the cell.
        namespace: Global variables of the notebook; the cell may change them.
        number: Number of the cell, from 1; used in tracebacks and outputs.
    """
    tree = ast.parse(source)
    last = (
        tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    )
    name = f"cell {number}"
    printed, value = io.StringIO(), None
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    outputs: list[dict] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    outputs += _figures()
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append(_shown(data, "execute_result", number))
    return outputs


def _figures() -> list[dict]:
    """Return the open matplotlib figures as PNG outputs, and close them."""
    import matplotlib.pyplot as plt

    outputs = []
    for number in plt.get_fignums():
        image = io.BytesIO()
        figure = plt.figure(number)
        figure.savefig(image, dpi=DPI, metadata={"Software": None})
        text = base64.b64encode(image.getvalue()).decode()
        outputs.append(_shown({"image/png": text, "text/plain": ["Figure"]}))
    plt.close("all")
    return outputs


def _shown(
    data: dict[str, Any], kind: str = "display_data", number: int | None = None
) -> dict[str, Any]:
    output = {"data": data, "metadata": {}, "output_type": kind}
    return output if number is None else {**output, "execution_count": number}


@contextmanager
def _quiet_folder() -> Iterator[None]:
    """Work in a new temporary folder, without windows, warnings and log lines."""
    import matplotlib

    matplotlib.use("Agg")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.INFO)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            logging.disable(logging.NOTSET)


def write(path: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook as Jupyter does: indented by one space, with a last newline."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", "utf-8")


def main() -> None:
    """Execute the given notebooks, or all of them, and rewrite their files."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="names without suffix; default: all")
    names = parser.parse_args().names
    for path in notebooks():
        if not names or path.stem in names:
            write(path, execute(json.loads(path.read_text("utf-8"))))
            print(path.name)


if __name__ == "__main__":
    main()
