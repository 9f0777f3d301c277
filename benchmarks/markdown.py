"""Tables in Markdown, and where their figures lie."""

from pathlib import Path

RESULTS = Path("results")


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
