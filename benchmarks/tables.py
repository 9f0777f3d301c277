"""Render the README's tables from the records in results/: figures are never typed.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. Run `make tables`.
"""

import re
from collections.abc import Callable
from pathlib import Path

from gnnak.training.results import Record, read_records

README = Path("README.md")
RESULTS = Path("results")


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def latest(records: list[Record], key: str) -> list[Record]:
    """The newest record of every value of `key`, in order of first appearance."""
    newest = {record[key]: record for record in records}
    return list(newest.values())


def extraction() -> str:
    """Ours against PyG's transform: seconds, memory and the ratio of times."""
    rows = []
    for record in latest(read_records(RESULTS / "extraction.jsonl"), "case"):
        taken, peak = record["seconds"], record["peak_mb"]
        cells = [
            f"{taken[name]:.3f} s, {peak[name]:.0f} MB" if name in taken else "-"
            for name in ("gnnak", "pyg")
        ]
        ratio = f"{taken['pyg'] / taken['gnnak']:.0f} x" if "pyg" in taken else "-"
        rows.append([record["case"], *cells, ratio])
    return markdown(["egonets of", "gnnak", "PyG `RootedEgoNets`", "faster"], rows)


TABLES: dict[str, Callable[[], str]] = {"extraction": extraction}


def render(text: str) -> str:
    """The text with every marked table made anew."""

    def table(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- table: {name} -->\n{TABLES[name]()}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite the README's tables."""
    README.write_text(render(README.read_text("utf-8")), "utf-8")
    print(f"{README}: {', '.join(TABLES)}")


if __name__ == "__main__":
    main()
