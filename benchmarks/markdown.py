"""Format Markdown tables; `RESULTS` is the folder with the records they show."""

from pathlib import Path

RESULTS = Path("results")


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table; all columns but the first are right-aligned."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
