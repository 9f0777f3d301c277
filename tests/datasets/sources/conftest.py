"""Replace the internet by a pretended one."""

import pytest

from gnnak.datasets.sources import archive
from tests.datasets.sources.internet import Internet


@pytest.fixture(autouse=True)
def internet(monkeypatch):
    """Return an internet without any address."""
    found = Internet()
    monkeypatch.setattr(archive, "open_url", found.open)
    monkeypatch.delenv("GNNAK_DATA", raising=False)
    return found
