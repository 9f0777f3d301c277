"""The names that docs/own-data.md lists are those of the code."""

from pathlib import Path

from gnnak.datasets.own.read import READERS
from gnnak.datasets.record import METRICS
from gnnak.graphs.readers.table import TABLE_SUFFIXES
from gnnak.training.config.experiment import DEFAULTS

TEXT = (Path(__file__).parent.parent / "docs" / "own-data.md").read_text("utf-8")


def test_own_data_page_lists_all_metrics_and_suffixes():
    for name in METRICS:
        assert name in TEXT
    for suffix in (*TABLE_SUFFIXES, *set(READERS) - {".pth"}):
        assert f"`{suffix}`" in TEXT


def test_own_data_page_tells_the_defaults():
    layers, channels = DEFAULTS["model.num_layers"], DEFAULTS["model.channels"]
    assert f"{layers} layers and {channels} channels" in TEXT
    assert f"at most {DEFAULTS['train.epochs']} epochs" in TEXT
