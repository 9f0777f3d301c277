"""Format a filled table of the paper as Markdown, LaTeX, CSV or plain text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `gnnak table --help` lists FORMATS and must not import PyTorch.
    from gnnak.report.tables import FilledTable

TEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "▲": r"$\blacktriangle$",
    "≈": r"$\approx$",
    "▼": r"$\blacktriangledown$",
}
FIELDS = "row column mean deviation runs ours paper verdict note"
"""The columns of the CSV file."""


def markdown(filled: FilledTable) -> str:
    header, body = filled.header, filled.body
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *body]
    table = [
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |"
        for line in lines
    ]
    remarks = [f"- {remark}" for remark in filled.remarks]
    return "\n".join([f"**{filled.table.caption}**", "", *table, "", *remarks])


def latex(filled: FilledTable) -> str:
    """Return a LaTeX table; the document must load booktabs and amssymb."""
    lines = [[_tex(cell) for cell in line] for line in (filled.header, *filled.body)]
    header, *body = (" & ".join(line) + r" \\" for line in lines)
    columns = "l" + "r" * len(filled.table.columns)
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_tex(filled.table.caption)}}}",
            rf"\label{{tab:{filled.table.name}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            header,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\footnotesize {_tex(remark)}" for remark in filled.remarks),
            r"\end{table}",
        ]
    )


def as_csv(filled: FilledTable) -> str:
    """Return the table as CSV, one line per cell; accuracies are between 0 and 1."""
    out = io.StringIO()
    names = FIELDS.split()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for row in filled.rows:
        writer.writerows({k: cell.as_dict()[k] for k in names} for cell in row)
    return out.getvalue().rstrip("\n")


def text(filled: FilledTable, width: int | None = None) -> str:
    """Return the table as plain text; wide tables are split into blocks of columns."""
    lines = [filled.header, *filled.body]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    blocks = [
        "\n".join(_aligned(line, widths, block) for line in lines)
        for block in _blocks(widths, width)
    ]
    return "\n\n".join([filled.table.caption, *blocks, "\n".join(filled.remarks)])


FORMATS: dict[str, Callable[[FilledTable], str]] = {
    "text": text,
    "markdown": markdown,
    "latex": latex,
    "csv": as_csv,
}


def _tex(words: str) -> str:
    return "".join(TEX.get(letter, letter) for letter in words)


def _aligned(line: Sequence[str], widths: Sequence[int], chosen: list[int]) -> str:
    numbers = [line[i].rjust(widths[i]) for i in chosen]
    return "  ".join([line[0].ljust(widths[0]), *numbers]).rstrip()


def _blocks(widths: Sequence[int], width: int | None) -> list[list[int]]:
    blocks: list[list[int]] = [[]]
    taken = widths[0]
    for column in range(1, len(widths)):
        needed = widths[column] + 2
        if width is not None and blocks[-1] and taken + needed > width:
            blocks.append([])
            taken = widths[0]
        blocks[-1].append(column)
        taken += needed
    return blocks
