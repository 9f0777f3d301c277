"""The table "where to add" in CONTRIBUTING names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows():
    """Return the cells of each row of the table, without its header."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.split("| a new ... |")[1].split("\n\n")[0]
    return [line.strip("|").split("|") for line in table.splitlines()[2:]]


def test_where_to_add_names_files_that_exist():
    found = [
        path
        for row in rows()
        for cell in row
        for path in re.findall(r"`((?:gnnak|tests|docs)/[\w./-]+)`", cell)
    ]
    assert len(found) > 30
    missing = [path for path in found if not (ROOT / path).exists()]
    assert not missing


def test_where_to_add_answers_what_people_ask_for():
    titles = " ".join(row[0] for row in rows())
    asked = ("base GNN", "pooling", "kernel", "data set", "subgraph GNN", "report")
    for name in (*asked, "command"):
        assert name in titles
