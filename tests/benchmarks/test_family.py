import logging

import pytest

from benchmarks.family import lines, measure
from gnnak.training.config.experiment import load_experiment
from gnnak.training.measure.bench import BenchOptions
from tests.training.small import edge_counts

FAILED = "steps are not captured, which is slower: out of memory"
RECORD = {
    "accelerator": "cuda",
    "captured": True,
    "config": load_experiment("zinc").config_for("sswl+-gin").to_dict(),
    "device": "abacus",
    "graphs": 1280,
    "graphs_an_epoch": 10_000,
    "parameters": 384_000,
    "peak_memory_mb": 2001.4,
    "seconds": {"epoch": 1.256},
}


def test_lines_show_the_newest_record_on_a_gpu():
    old = RECORD | {"seconds": {"epoch": 9.0}}
    cpu = RECORD | {"accelerator": "cpu", "seconds": {"epoch": 99.0}}
    assert lines([old, RECORD, cpu]) == [
        [
            *("`sswl+-gin`", "whole", "96", "384,000", "1.26", "2,001"),
            "abacus, captured, 1,280 graphs, scaled",
        ]
    ]


@pytest.mark.heavy
def test_measure_trains_a_member_with_its_published_options():
    record = measure("sun-gin", edge_counts(), BenchOptions(epochs=1))
    assert record["config"]["model"]["channels"] == 64
    assert record["seconds"]["epoch"] > 0
    assert lines([record])[0][0] == "`sun-gin`"


@pytest.mark.parametrize(("message", "captured"), [("steps", True), (FAILED, False)])
def test_measure_says_if_a_capture_failed(message, captured, monkeypatch):
    def bench(*_, **__):
        logging.getLogger("gnnak").warning(message)
        return {}

    monkeypatch.setattr("benchmarks.family.bench", bench)
    monkeypatch.setattr("benchmarks.family.is_captured", lambda *_: True)
    found = measure("sun-gin", edge_counts(), BenchOptions())
    assert found == {"captured": captured}
