from matplotlib.figure import Figure

from gnnak.report.markup import INK, inline_svg, page_style


def svg_of(label):
    with page_style():
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
