"""The code blocks of README.md and docs/, as a reader finds them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    """Path of the page, relative to the project's root."""
    line: int
    """Number of the block's first line of code."""
    language: str
    """`python`, `sh`, `text` and so on; empty if the fence names none."""
    code: str
    reason: str | None
    """Why the block is not run; None = it is run."""


def blocks_of(page: Path) -> list[Block]:
    """Return all fenced blocks of a page."""
    text = page.read_text("utf-8")
    name = page.relative_to(ROOT).as_posix()
    return [
        Block(
            name,
            text.count("\n", 0, found.start("code")) + 1,
            found["language"],
            found["code"],
            found["reason"],
        )
        for found in FENCE.finditer(text)
    ]


def blocks(language: str) -> list[Block]:
    """Return the blocks of all pages in one language."""
    return [b for page in PAGES for b in blocks_of(page) if b.language == language]


def commands(block: Block) -> list[str]:
    """Return the `gnnak` commands of a shell block, one line each, without comments."""
    code = re.sub(r"<<'END'\n.*?^END$", "", block.code, flags=re.MULTILINE | re.DOTALL)
    lines = code.replace("\\\n", " ").splitlines()
    lines = [re.sub(r"\s#.*", "", line).strip() for line in lines]
    starts = re.compile(r"^(?:srun |torchrun .*?-m (?=gnnak\.cli))?gnnak(?:\.cli)? ")
    return [starts.sub("", line) for line in lines if starts.match(line)]
