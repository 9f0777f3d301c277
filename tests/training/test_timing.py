from gnnak.training import clock
from gnnak.training.clock import Clock
from gnnak.training.timing import Timing


def test_timing_counts_training_and_evaluation_for_themselves(monkeypatch):
    now = iter([0.0, 3.0, 3.0, 10.0, 20.0, 25.0])
    monkeypatch.setattr(clock.time, "perf_counter", lambda: next(now))
    watch = Clock()
    timing = Timing(watch)
    timing.on_train_epoch_start(None, None)
    timing.on_validation_start(None, None)
    timing.on_validation_end(None, None)
    timing.on_train_epoch_start(None, None)
    timing.on_exception(None, None, ValueError())
    assert dict(watch.seconds) == {"train": 3.0 + 5.0, "evaluation": 7.0}
    assert set(watch.megabytes) == {"train", "evaluation"}
