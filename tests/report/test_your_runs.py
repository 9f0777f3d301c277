"""The user's runs, grouped by task and setting."""

import pytest

from gnnak.report.your_runs import group_tasks
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from tests.report.hand_records import run_record


@pytest.mark.parametrize(("model", "settings"), [("gin-ak+", 1), ("gin-ak+-s", 2)])
def test_drop_options_separate_only_runs_with_subgraph_drop(model, settings):
    records = []
    for seed, coverage in enumerate((1, 3)):
        options = {"model.name": model, "model.drop.min_coverage": coverage}
        config = change(RunConfig(), {"data.name": "zinc", **options})
        records.append(run_record(config, seed))
    (task,) = group_tasks(records)
    assert len(task.settings) == settings
    assert task.runs == 2
