from gnnak.report.page import costs_section
from gnnak.report.plots import growth_figure
from gnnak.training.config.run_config import RunConfig

BENCH = {
    "kind": "bench",
    "config": RunConfig().to_dict(),
    "device": "abacus",
    "fast": True,
    "seconds": {"epoch": 0.25},
    "peak_memory_mb": 1234.5,
    "graphs_per_second": 40_000.0,
}
GROWTH = [
    BENCH | {"kind": "growth", "what": what, "value": value, "peak_memory_mb": memory}
    for what in ("nodes", "hops")
    for value, memory in ((1, 10.0), (2, None))
]


def test_costs_section_shows_the_newest_record_of_a_run():
    newer = BENCH | {"seconds": {"epoch": 0.125}}
    shown = costs_section([BENCH, newer, BENCH | {"fast": False}])
    assert "zinc, gin-ak+, k = 3" in shown
    assert "<td>0.125</td><td>1,234</td><td>40,000</td>" in shown
    assert shown.count("abacus") == 2


def test_costs_section_has_a_figure_for_all_that_grows():
    shown = costs_section(GROWTH)
    assert "How cost grows" in shown
    assert shown.count("<svg") == 2


def test_growth_figure_is_labelled():
    assert "grow with hops" in growth_figure(GROWTH[2:], "hops")


def test_costs_section_of_nothing_says_so():
    assert "Nothing has been measured yet." in costs_section([])
