"""Convert matplotlib figures to inline SVG.

Text and axes get the text colour of the HTML page that the SVG is inserted into.
"""

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

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
