import pytest

# As in tests/conftest.py, PyTorch is imported inside the fixtures.


@pytest.fixture
def streams(monkeypatch):
    """All streams used so far; windows are prefetched in threads, as on a GPU."""
    from gnnak.loading import assembler
    from gnnak.loading.prefetch import Prefetcher
    from tests.loading.fake_stream import FakeStream

    created = []

    def in_thread(results, *_):
        created.append(FakeStream())
        return Prefetcher(results, created[-1])

    monkeypatch.setattr(assembler, "prefetch", in_thread)
    return created
