from gnnak.training import timing as timing_module


def test_timing_counts_training_and_evaluation_separately(monkeypatch):
    now = iter([0.0, 3.0, 3.0, 10.0, 20.0, 25.0])
    monkeypatch.setattr(timing_module.time, "perf_counter", lambda: next(now))
    clock = timing_module.Clock()
    callback = timing_module.Timing(clock)
    callback.on_train_epoch_start(None, None)
    callback.on_validation_start(None, None)
    callback.on_validation_end(None, None)
    callback.on_train_epoch_start(None, None)
    callback.on_exception(None, None, ValueError())
    assert dict(clock.seconds) == {"train": 3.0 + 5.0, "evaluation": 7.0}
    assert set(clock.megabytes) == {"train", "evaluation"}
