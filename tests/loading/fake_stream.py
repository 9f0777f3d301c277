"""A `PrefetchStream` for tests on a CPU."""

import threading
from contextlib import contextmanager


class FakeStream:
    """Records the threads that compute results, and the results handed over."""

    def __init__(self):
        self.threads, self.handed_over = [], []

    @contextmanager
    def activate(self):
        self.threads.append(threading.current_thread())
        yield

    def record_event(self):
        return threading.current_thread()

    def hand_over(self, result, event):
        assert event is self.threads[0] is not threading.current_thread()
        self.handed_over.append(result)
