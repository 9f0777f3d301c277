"""Convert figures to inline SVG with the text colour of the page around it."""

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
"""Placeholder that is replaced by the text colour of the page (`currentColor`)."""
GRAPH_EDGES = "#555555"
"""Colour of graph edges in `pictures.py`; replaced in the same way."""
COLOURS = ("#d1495b", "#4c8bd6", "#3f9b6c", "#c58a1a", "#8d6fc9", "#7d8794")
"""Colours of lines and bars, legible on white and on black."""
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
    """Set matplotlib's style to that of the page for figures made inside."""
    with matplotlib.rc_context(STYLE):
        yield


def inline_svg(figure: Figure, label: str) -> str:
    """Convert a figure to an `<svg>` element.

    The ids inside depend on the label, so that figures with different labels can be on
    one page.

    Args:
        figure: The figure.
        label: Description for screen readers (`aria-label`).
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
    head = f'<svg role="img" aria-label="{html.escape(label)}"'
    text = re.sub(r'^<svg((?: [\w:]+="[^"]*")*)>', lambda m: _head(head, m[1]), text)
    return _without_unused_ids(text)


def _head(start: str, attributes: str) -> str:
    """Return the opening tag with the view box, and without width and height."""
    box = re.search(r' viewBox="[^"]*"', attributes)
    assert box is not None
    return (
        f'{start}{box[0]} xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink">'
    )


def _without_unused_ids(text: str) -> str:
    """Remove the ids that nothing in the element refers to."""
    used = set(re.findall(r"#([\w.-]+)", text))
    return re.sub(
        r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text
    )
