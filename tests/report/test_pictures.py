import pytest
from matplotlib.figure import Figure

from gnnak.graphs.named import four_regular_pair
from gnnak.report.pictures import plot_curves, plot_egonet, plot_graph, save


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
