import pytest

from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.schedule.queue import Job, without_repeats
from gnnak.training.schedule.sweep import grid

ZINC = RunConfig()


def test_without_repeats_drops_later_jobs_with_the_same_run():
    other = change(ZINC, {"train.seed": 1})
    jobs = [
        Job("table 1", "zinc", ZINC),
        Job("table 1", "zinc", other),
        Job("table 2", "zinc", ZINC),
        Job("table 2", "another", ZINC),
    ]
    assert without_repeats(jobs) == [jobs[0], jobs[1], jobs[3]]
    assert without_repeats([]) == []


def test_grid_has_every_combination_once():
    pairs = grid(ZINC, {"model.channels": [8, 16], "train.epochs": [1, 2, 3]})
    assert len({config for _, config in pairs}) == 6
    for chosen, config in pairs:
        assert config.model.channels == chosen["model.channels"]
        assert config.train.epochs == chosen["train.epochs"]
    assert grid(ZINC, {}) == [({}, ZINC)]


def test_grid_names_a_wrong_option():
    with pytest.raises(OptionError, match=r"did you mean model\.channels"):
        grid(ZINC, {"model.chanels": [8]})
    with pytest.raises(OptionError, match=r"train\.epochs has no values"):
        grid(ZINC, {"train.epochs": []})
