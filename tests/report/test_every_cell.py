"""Run every cell of every table, including those that are OOM in the paper."""

import math

import pytest

from gnnak.report.paper import load_table, table_names
from gnnak.training.config import RunConfig
from gnnak.training.options import change
from gnnak.training.protocols import num_folds
from gnnak.training.run import run
from tests.report.few_graphs import few_graphs


def every_cell() -> dict[str, tuple[str, RunConfig]]:
    """Yield one title for each config, and the config."""
    found = {}
    for table in table_names():
        for cell in load_table(table).cells():
            found.setdefault(
                cell.config.hash(), (f"{table}: {cell.title}", cell.config)
            )
    return dict(found.values())


CELLS = every_cell()


@pytest.mark.parametrize("title", CELLS)
def test_a_cell_takes_a_training_step_and_is_scored(title, tmp_path):
    config = change(CELLS[title], {"train.epochs": 1, "train.batch_size": 8})
    data = few_graphs(config.data.name)
    if num_folds(data, config.data.protocol):
        config = change(config, {"data.fold": 0})
    record = run(config, data, tmp_path)
    assert math.isfinite(record["curves"]["train_loss"][0])
    assert {"validation", "test"} == record["scores"].keys()
