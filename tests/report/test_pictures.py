import re

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from gnnak.graphs.named import four_regular_pair
from gnnak.report.pictures import (
    INK,
    STYLE,
    curves_figure,
    inline_svg,
    plot_curves,
    plot_egonet,
    plot_graph,
    save,
)


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_save_writes_a_whole_file_or_none(tmp_path, suffix):
    figure = Figure()
    graph = four_regular_pair()[0]
    first, second, third = figure.subplots(1, 3)
    plot_graph(first, graph, 0, 2, "graph")
    plot_egonet(second, graph, 0, 2, "egonet")
    plot_curves(third, {"a": [0.1, 0.2], "b": [0.3]}, "loss", "curves")
    path = tmp_path / f"picture.{suffix}"
    save(figure, path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_size > 1000
    assert first.get_title() == "graph"
    assert [text.get_text() for text in third.get_legend().get_texts()] == ["a", "b"]


def svg_of(label):
    with rc_context(STYLE):
        figure = Figure(figsize=(2, 1))
        figure.subplots().plot([1, 2], [3, 4], "o-", label="a < b")
        return inline_svg(figure, label)


def test_inline_svg_takes_its_ink_from_the_page_and_is_labelled():
    svg = svg_of('a "label" & more')
    assert svg.startswith('<svg role="img" aria-label="a &quot;label&quot; &amp; more"')
    assert svg.endswith("</svg>")
    assert "currentColor" in svg
    assert INK not in svg
    assert "metadata" not in svg


def test_inline_svg_is_reproducible_and_shares_no_id_with_another():
    first, second = svg_of("one"), svg_of("two")
    assert svg_of("one") == first
    names = [
        {part.split('"')[0] for part in svg.split(' id="')[1:]}
        for svg in (first, second)
    ]
    assert names[0]
    assert not names[0] & names[1]


@pytest.mark.parametrize(
    ("values", "epochs"),
    [([0.457], ["1"]), ([0.457, 0.5], ["1", "2"]), ([4.0, 2.0, 1.0], ["1", "2", "3"])],
)
def test_curves_of_few_epochs_have_whole_epochs_and_few_scores_as_ticks(values, epochs):
    svg = curves_figure({"gin": values}, "title", "score", log=True)
    ticks = re.findall(r"<text[^>]*>([\d.]+)</text>", svg)
    assert ticks[: len(epochs)] == epochs
    scores = [float(text) for text in ticks[len(epochs) :]]
    assert 2 <= len(scores) <= 8
    assert min(scores) <= max(values)
    assert max(scores) >= min(values)
