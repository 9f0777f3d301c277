import pytest

from gnnak.loop import training_step


@pytest.fixture
def record_with(monkeypatch):
    """A function that takes the recorder which steps are captured with."""
    pytest.importorskip("gnnak.fast")
    from tests.fast.recorders import maker_with

    def use(recorder):
        monkeypatch.setattr(training_step, "make_captured_model", maker_with(recorder))
        return recorder

    return use


@pytest.fixture
def calls(record_with):
    from tests.fast.recorders import CallRecorder

    return record_with(CallRecorder())
