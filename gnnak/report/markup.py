"""Build the elements of an HTML page as strings, and figures as inline SVG."""

import html
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from gnnak.report.tables import Filled, FilledTable

CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5b6470;
  --line: #d5dae0; --band: #f4f6f8; --link: #1a5fb4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14171b;
  --soft: #a3acb8; --line: #343b44; --band: #1d2228; --link: #8ab8f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { line-height: 1.2; margin-bottom: 0.3rem; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; padding-bottom: 0.2rem; }
h3 { margin: 1.8rem 0 0.4rem; }
a { color: var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; list-style: none;
  padding: 0; }
.soft, figcaption { color: var(--soft); font-size: 0.9rem; }
.scroll { border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem;
  font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { padding: 0.35rem 0.6rem; text-align: right; white-space: nowrap; }
thead th, thead td { background: var(--band); max-width: 9rem; vertical-align: bottom;
  white-space: normal; }
tbody tr { border-top: 1px solid var(--line); }
tbody th, thead td, thead th:first-child { background: var(--band);
  font-weight: 600; left: 0;
  position: sticky; text-align: left; }
td .paper { color: var(--soft); }
td b { font-weight: 650; }
.gallery { display: grid; gap: 0 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 1rem 0; max-width: 46rem; }
figure svg { display: block; height: auto; width: 100%; }
pre { background: var(--band); border: 1px solid var(--line); border-radius: 6px;
  overflow-x: auto; padding: 0.6rem 0.8rem; }
details { margin: 1.5rem 0; }
summary { color: var(--link); cursor: pointer; margin-bottom: 0.5rem; }
.notes { color: var(--soft); font-size: 0.85rem; margin: 0.4rem 0;
  padding-left: 1.1rem; }
@media (max-width: 40rem) { body { font-size: 15px; padding: 0.7rem; }
  tbody th { min-width: 10.5rem; overflow-wrap: anywhere; white-space: normal; }
  figure { overflow-x: auto; } figure svg { min-width: 32rem; } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a complete HTML page that has inline styles and loads no other files.

    Args:
        title: Title of the page.
        parts: HTML elements of the body.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>{CSS}</style>",
            "</head>",
            "<body>",
            *parts,
            "</body>",
            "</html>",
            "",
        ]
    )


def section(name: str, title: str, parts: Iterable[str]) -> str:
    """Return an HTML section with a heading.

    Args:
        name: Anchor of the section, for links to `#name`.
        title: Heading of the section.
        parts: HTML elements below the heading.
    """
    head = f'<section id="{escape(name)}" aria-labelledby="{escape(name)}-title">'
    heading = f'<h2 id="{escape(name)}-title">{escape(title)}</h2>'
    return "\n".join([head, heading, *parts, "</section>"])


def heading(title: str, name: str = "") -> str:
    """Return an HTML heading within a section.

    Args:
        title: Text of the heading.
        name: Anchor of the heading, for links to `#name`; empty = no anchor.
    """
    anchor = f' id="{escape(name)}"' if name else ""
    return f"<h3{anchor}>{escape(title)}</h3>"


def paragraph(text: str, soft: bool = False) -> str:
    """Return an HTML paragraph; if `soft` is True, the text is small and grey."""
    look = ' class="soft"' if soft else ""
    return f"<p{look}>{escape(text)}</p>"


def command(text: str, line: str) -> str:
    """Return an HTML paragraph that ends with a command, and the command below it."""
    return f"<p>{escape(text)}</p><pre><code>{escape(line)}</code></pre>"


def details(title: str, parts: Iterable[str]) -> str:
    """Return HTML elements that are hidden until the reader clicks on a title."""
    summary = f"<summary>{escape(title)}</summary>"
    return "\n".join(["<details>", summary, *parts, "</details>"])


def links(targets: Iterable[tuple[str, str]]) -> str:
    """Return an HTML navigation bar; a target is the anchor and the text of a link."""
    items = [f'<li><a href="#{escape(a)}">{escape(t)}</a></li>' for a, t in targets]
    return f'<nav aria-label="Contents"><ul>{"".join(items)}</ul></nav>'


def notes(lines: Sequence[str]) -> str:
    """Return an HTML list of remarks; the empty string if `lines` is empty."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="notes">{items}</ul>' if lines else ""


def figure(svg: str, caption: str) -> str:
    """Return an HTML figure with a caption; `svg` is inserted without escaping."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def gallery(figures: Iterable[str]) -> str:
    """Return an HTML grid of figures, with several per row on a wide screen."""
    return f'<div class="gallery">{"".join(figures)}</div>'


def plain_table(
    label: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """Return an HTML table whose cells contain plain text.

    Args:
        label: Name of the table for screen readers (`aria-label`).
        header: Titles of the columns.
        rows: Texts of the cells, row by row. The first text of a row is its heading.
    """
    cells = [[f"<td>{escape(cell)}</td>" for cell in row[1:]] for row in rows]
    return _table(label, header, [row[0] for row in rows], cells)


def filled_table(filled: FilledTable) -> str:
    """Return one of the paper's tables, filled with our numbers, as an HTML table."""
    cells = [[f"<td>{_cell(cell)}</td>" for cell in row] for row in filled.rows]
    titles = [row[0].cell.row for row in filled.rows]
    return _table(filled.table.caption, filled.header, titles, cells)


def _cell(cell: Filled) -> str:
    ours = f"<b>{escape(cell.ours)}</b>" if cell.ours else escape(cell.expected)
    mark = f"<sup>{escape(cell.mark)}</sup>" if cell.mark else ""
    sign = f' <span title="{cell.verdict}">{cell.sign}</span>' if cell.sign else ""
    paper = cell.cell.paper
    theirs = f'<span class="paper">({escape(paper)})</span>' if paper else ""
    return f"{ours}{mark}{sign} {theirs}".strip()


def _table(
    label: str,
    header: Sequence[str],
    titles: Sequence[str],
    cells: Sequence[Sequence[str]],
) -> str:
    head = "".join(_column(title) for title in header)
    body = "".join(
        f'<tr><th scope="row">{escape(title)}</th>{"".join(row)}</tr>'
        for title, row in zip(titles, cells, strict=True)
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _column(title: str) -> str:
    return f'<th scope="col">{escape(title)}</th>' if title else "<td></td>"


INK = "#010203"
"""Placeholder for the page's text colour: `inline_svg` replaces this colour by
`currentColor`."""
GRAPH_EDGES = "#555555"
"""Colour of graph edges in the plots of `pictures.py`. `inline_svg` replaces it by the
page's text colour, so that edges are visible on light and on dark pages."""
COLOURS = ("#d1495b", "#4c8bd6", "#3f9b6c", "#c58a1a", "#8d6fc9", "#7d8794")
"""Colours of lines and bars, visible on a white and on a black page."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def page_style() -> Iterator[None]:
    """Context manager: figures made in the `with` block have the report's style."""
    with matplotlib.rc_context(STYLE):
        yield


def inline_svg(figure: Figure, label: str) -> str:
    """Convert a matplotlib figure to an `<svg>` element.

    Args:
        figure: The figure.
        label: Description for screen readers (`aria-label`). Give the figures of a page
            different labels: the XML ids are derived from the label and must not
            collide.
    """
    FigureCanvasSVG(figure)
    out = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": label}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    for ink in (INK, GRAPH_EDGES):
        text = text.replace(ink, "currentColor")
    text = re.sub(r" (?:d|x|y|transform)=\"[^\"]*\"", _rounded, text)
    head = f'<svg role="img" aria-label="{html.escape(label)}"'
    text = re.sub(r'^<svg((?: [\w:]+="[^"]*")*)>', lambda m: _head(head, m[1]), text)
    return _without_unused_ids(text)


def _rounded(attribute: re.Match[str]) -> str:
    """Return an SVG attribute with at most two decimals; this makes pages smaller."""
    return re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", attribute[0])


def _head(start: str, attributes: str) -> str:
    """Return an opening `<svg>` tag without width and height, as CSS sets the size.

    Args:
        start: Beginning of the new tag.
        attributes: Attributes of matplotlib's tag; only `viewBox` is copied.
    """
    box = re.search(r' viewBox="[^"]*"', attributes)
    assert box is not None
    return (
        f'{start}{box[0]} xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink">'
    )


def _without_unused_ids(text: str) -> str:
    """Return the SVG text without those `id` attributes that nothing refers to."""
    used = set(re.findall(r"#([\w.-]+)", text))
    return re.sub(
        r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text
    )
