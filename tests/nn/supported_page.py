"""Write the tables of docs/supported-convs.md.

`python -m tests.nn.supported_page` uplifts all convs and models of the catalogue and
rewrites the page.
"""

from pathlib import Path

import torch
from torch import nn

from gnnak import uplift
from gnnak.errors import GnnakError
from tests.nn.catalogue import CONVS, MODELS, Entry, graph_inputs
from tests.nn.catalogue_stacks import STACKS

PAGE = Path(__file__).parents[2] / "docs" / "supported-convs.md"
TABLES = {"convs": CONVS, "models": MODELS, "stacks": STACKS}
"""The tables of the page by the name in their markers."""


def call(module: nn.Module, entry: Entry) -> object:
    inputs = graph_inputs()
    given = {name: inputs[name] for name in entry.given.split()}
    for name, value in given.items():
        if value.is_floating_point():
            given[name] = value.to(entry.dtype)
    torch.manual_seed(1)
    first = [given.pop(name) for name in list(given)[:2]]
    return module(*first, **given)


def outcome(entry: Entry, skip: str | None = None) -> str:
    """Uplift a conv or model and run it; return "runs" or why it is refused."""
    torch.manual_seed(0)
    model = entry.make().to(entry.dtype)
    try:
        call(uplift(model, num_hops=1, skip=skip).to(entry.dtype).eval(), entry)
    except GnnakError as error:
        return str(error)
    return "runs"


def row(name: str, entry: Entry) -> str:
    found = outcome(entry)
    given = ", ".join(entry.given.split())
    needs = f"; needs {entry.needs}" if entry.needs else ""
    if found == "runs":
        return f"| {name} | {given} | runs{needs} |"
    if entry.skip is not None and outcome(entry, entry.skip) == "runs":
        return f"| {name} | {given} | runs with `skip={entry.skip!r}`{needs} |"
    return f"| {name} | | {escape(found)} |"


def escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("_", "\\_").replace("*", "\\*")


def page(text: str) -> str:
    for title, entries in TABLES.items():
        head, rest = text.split(f"<!-- {title} -->\n", 1)
        tail = rest.split("<!-- end -->", 1)[1]
        rows = ["| name | called with | uplifted |", "|---|---|---|"]
        rows += [row(name, entry) for name, entry in entries.items()]
        body = "\n".join(rows)
        text = f"{head}<!-- {title} -->\n{body}\n<!-- end -->{tail}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
