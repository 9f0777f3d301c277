import threading
import time
import warnings

import pytest

from gnnak.fast.step.recorder import synchronisations_recorded
from gnnak.loading.prefetch import Prefetcher
from tests.loading.fake_stream import FakeStream


@pytest.fixture
def mode(monkeypatch):
    """Stands in for PyTorch's debug mode, which only builds for CUDA have."""
    modes = [0]
    monkeypatch.setattr("torch.cuda.get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr("torch.cuda.set_sync_debug_mode", modes.append)
    return modes


def wait(modes):
    if modes[-1] == "warn":
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)


def test_synchronisations_are_recorded_with_their_place_in_any_thread(mode):
    with synchronisations_recorded() as waits:
        wait(mode)
        backward = threading.Thread(target=wait, args=(mode,))
        backward.start()
        backward.join()
    assert len(waits) == 2
    assert all(place.startswith("test_synchronisations.py, line ") for place in waits)
    assert mode[-1] == 0


def test_synchronisations_of_prefetching_are_not_recorded(mode):
    def results():
        for number in range(20):
            wait(mode)
            time.sleep(0.002)
            wait(mode)
            yield number

    noted = []
    for _ in Prefetcher(results(), FakeStream()):
        with synchronisations_recorded() as waits:
            time.sleep(0.002)
        noted += waits
    assert noted == []


def test_synchronisations_recorded_passes_other_warnings_on(mode):
    def work():
        with synchronisations_recorded() as waits:
            warnings.warn("something else", stacklevel=1)
            warnings.warn("mode is a prototype feature", stacklevel=1)
        return waits

    with pytest.warns(UserWarning, match="something else") as passed:
        assert work() == []
    assert len(passed) == 1
