"""Run every cell of every table, including those that are OOM in the paper."""

import math
from pathlib import Path

import pytest

from gnnak.report.cells import load_table, table_names
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.protocols import num_folds
from gnnak.training.run import run
from tests.report.few_graphs import few_graphs


def every_cell() -> dict[str, RunConfig]:
    """Return one title for each config, and the config."""
    found = {}
    for table in table_names():
        for cell in load_table(table).cells():
            config = change(cell.config, {"data.target": None})
            found.setdefault(config.hash(), (f"{table}: {cell.title}", config))
    return dict(found.values())


def small(config: RunConfig) -> RunConfig:
    """The same network with fewer channels, and two layers instead of more."""
    hops = {"model.hop_channels": 4} if config.model.hop_channels else {}
    layers = {"model.num_layers": min(2, config.model.num_layers)}
    return change(config, {"model.channels": 8} | layers | hops)


def every_network(cells: dict[str, RunConfig]) -> dict[str, RunConfig]:
    """Return the cells whose small configs differ in more than the protocol.

    A protocol chooses the graphs to train and score on, which no network depends on;
    so one cell for each protocol of a data set is returned besides.
    """
    networks, protocols = {}, {}
    for title, config in cells.items():
        network = change(small(config), {"data.protocol": "split"}).hash()
        networks.setdefault(network, title)
        protocols.setdefault((config.data.name, config.data.protocol), title)
    chosen = {*networks.values(), *protocols.values()}
    return {title: small(cells[title]) for title in cells if title in chosen}


CELLS = every_cell()
NETWORKS = every_network(CELLS)


def assert_trains(config: RunConfig, folder: Path) -> None:
    config = change(config, {"train.epochs": 1, "train.batch_size": 8})
    data = few_graphs(config.data.name)
    if num_folds(data, config.data.protocol):
        config = change(config, {"data.fold": 0})
    record = run(config, data, folder)
    assert math.isfinite(record["curves"]["train_loss"][0])
    assert {"validation", "test"} == record["scores"].keys()


@pytest.mark.parametrize("title", NETWORKS)
def test_a_network_takes_a_training_step_and_is_scored(title, tmp_path):
    assert_trains(NETWORKS[title], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("title", CELLS)
def test_a_cell_of_full_width_takes_a_training_step_and_is_scored(title, tmp_path):
    assert_trains(CELLS[title], tmp_path)
